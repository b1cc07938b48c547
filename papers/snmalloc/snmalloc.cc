// snmalloc (ISMM'19), and BatchIt (ISMM'24) on top of it. README.md says which section each part
// follows, and what the papers leave open.
#include "engine/engine.h"
#include "snmalloc/chunk_map.h"
#include "snmalloc/large.h"
#include "snmalloc/pool.h"

namespace engine {

void* allocate(size_t bytes) {
  if (LOFT_LIKELY(snmalloc::mine != nullptr)) return snmalloc::mine->allocate(bytes);
  const snmalloc::Loan loan;
  return loan.get() == nullptr ? nullptr : loan.get()->allocate(bytes);
}

void* allocate_aligned(size_t alignment, size_t bytes) {
  if (LOFT_LIKELY(snmalloc::mine != nullptr)) {
    return snmalloc::mine->allocate_aligned(alignment, bytes);
  }
  const snmalloc::Loan loan;
  return loan.get() == nullptr ? nullptr : loan.get()->allocate_aligned(alignment, bytes);
}

void release(void* p) {
  if (LOFT_LIKELY(snmalloc::mine != nullptr)) return snmalloc::mine->release(p);
  const snmalloc::Loan loan;
  // Without memory for an allocator, the object is lost.
  if (loan.get() != nullptr) loan.get()->release(p);
}

size_t usable_size(const void* p) {
  const auto object = reinterpret_cast<uintptr_t>(p);
  const snmalloc::ChunkKind kind = snmalloc::kind_of(object);
  return kind.is_large() || kind.is_jump() ? snmalloc::usable_size_of_large(p)
                                           : snmalloc::size_of_object(object, kind);
}

size_t zero_bytes(const void* p) {
  const snmalloc::ChunkKind kind = snmalloc::kind_of(reinterpret_cast<uintptr_t>(p));
  if (!kind.is_large() && !kind.is_jump()) return 0;
  // The caller has not written to it, so we may.
  return snmalloc::zero_bytes_of_large(const_cast<void*>(p));
}

void prepare_fork() { snmalloc::prepare_fork(); }
void finish_fork(bool child) { snmalloc::finish_fork(child); }
Counts counts() { return snmalloc::sum_of_counts(); }

}  // namespace engine
