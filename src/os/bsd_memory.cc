// Memory on FreeBSD and macOS, and what else both lack of Linux.
//
// Their madvise returns memory lazily, and what the pages then hold is anybody's guess. A discard
// therefore maps new pages over the old ones, in one call, in which no other mapping gets in
// between.
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/keep_errno.h"
#include "os/bsd_map.h"
#include "os/os.h"

namespace loft::os {

size_t page_size() {
  // Relaxed: every thread finds the same number.
  static constinit Atomic<size_t> known{0};
  size_t size = known.load(memory_order_relaxed);
  if (size == 0) {
    size = static_cast<size_t>(getpagesize());
    known.store(size, memory_order_relaxed);
  }
  return size;
}

void* reserve(size_t bytes) {
  const KeepErrno keep;
  void* const p = map(nullptr, bytes, PROT_NONE, 0);
  return p == MAP_FAILED ? nullptr : p;
}

bool unmap(void* at, size_t bytes) {
  const KeepErrno keep;
  count_map();
  return munmap(at, bytes) == 0;
}

bool commit(void* at, size_t bytes) {
  const KeepErrno keep;
  count_map();
  return mprotect(at, bytes, PROT_READ | PROT_WRITE) == 0;
}

bool has_memory_for(size_t bytes) {
  const KeepErrno keep;
  void* const p = map(nullptr, bytes, PROT_READ | PROT_WRITE, 0);
  return p != MAP_FAILED && munmap(p, bytes) == 0;
}

bool renew(void* at, size_t bytes, bool closed) {
  const KeepErrno keep;
  return map(at, bytes, closed ? PROT_NONE : PROT_READ | PROT_WRITE, MAP_FIXED) == at;
}

bool discard(void* at, size_t bytes, Proof) {
  const KeepErrno keep;
  count_discard();
  return map(at, bytes, PROT_READ | PROT_WRITE, MAP_FIXED) == at;
}

bool move_pages(void*, void*, size_t) { return false; }
bool can_move_pages(bool) { return false; }
bool locks_mappings() { return false; }
bool may_try_long_mappings() { return true; }

const char* environment(const char* name) { return has_more_rights() ? nullptr : getenv(name); }

void write_error(const char* text, size_t bytes) { write_all(STDERR_FILENO, text, bytes); }

// Threads of one process share its files.
bool leave_files() { return false; }

}  // namespace loft::os
