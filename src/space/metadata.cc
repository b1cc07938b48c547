#include "space/metadata.h"

#include <new>

#include "base/atomic.h"
#include "os/lock.h"

namespace loft::metadata {

namespace {

struct FreeBlock {
  FreeBlock* next;
};

constinit os::Lock lock;
constinit FreeBlock* free_blocks[kMetadataMaxBlock / kMetadataUnit + 1];
// Unit 0 is never handed out: index 0 means nothing.
constinit uintptr_t frontier = 0;
constinit Counter used;

}  // namespace

void* allocate(size_t bytes) {
  const size_t units = round_up(bytes, kMetadataUnit) / kMetadataUnit;
  const os::Guard guard(lock);
  void* block = free_blocks[units];
  if (block != nullptr) {
    free_blocks[units] = free_blocks[units]->next;
    __builtin_memset(block, 0, units * kMetadataUnit);
  } else {
    if (frontier == 0) frontier = window.metadata.base + kMetadataUnit;
    if (!window.metadata.grow(frontier + units * kMetadataUnit)) return nullptr;
    block = reinterpret_cast<void*>(frontier);
    frontier += units * kMetadataUnit;
  }
  used.add(units * kMetadataUnit);
  return block;
}

void release(void* block, size_t bytes) {
  const size_t units = round_up(bytes, kMetadataUnit) / kMetadataUnit;
  const os::Guard guard(lock);
  free_blocks[units] = new (block) FreeBlock{free_blocks[units]};
  used.add(-(units * kMetadataUnit));
}

size_t used_bytes() { return used.get(); }
unsigned long locks() { return lock.acquisitions(); }

void prepare_fork() { lock.lock(); }
void finish_fork(bool child) {
  if (child) {
    lock.reset();
  } else {
    lock.unlock();
  }
}

}  // namespace loft::metadata
