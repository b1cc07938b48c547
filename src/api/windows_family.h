// The allocation functions of Microsoft's C runtimes, with loft's objects, and the runtime's own
// beside them: what strdup returns, or was allocated before loft was there. An object of which loft
// knows nothing goes to the runtime's own function.
#pragma once

#include <cstddef>

#include "api/surface.h"
#include "base/macros.h"
#include "front/allocate.h"
#include "space/pagemap.h"

namespace loft::family {

// The functions of a runtime that loft stands before.
struct Runtime {
  void (*free)(void*);
  void* (*realloc)(void*, size_t);
  size_t (*msize)(void*);
  void* (*expand)(void*, size_t);
  void (*aligned_free)(void*);
  size_t (*aligned_msize)(void*, size_t alignment, size_t offset);
  int* (*error_number)();
};

// Whether p is loft's to free: one of its objects, or an address where only loft can have had any,
// whose misuse is loft's to report.
bool is_loft(const void* p);

// Whether p lies between what is loft's. The system may have put somebody else's memory there, and
// free's fast path would take p for loft's.
inline bool is_in_a_gap(const void* p) { return pagemap.contains(p) && pagemap.of(p).word() == 0; }

// The runtime's errno is ENOMEM. Returns nullptr.
void* no_memory(const Runtime& runtime);

inline void* allocate_or_tell(const Runtime& runtime, size_t size) {
  void* const p = loft::allocate(size);
  return LOFT_LIKELY(p != nullptr) ? p : no_memory(runtime);
}

// The bytes behind those that were asked for are zero, too: `recalloc` cannot tell them apart.
void* allocate_zeroed_to_the_end(const Runtime& runtime, size_t count, size_t size);

void free_slow(const Runtime& runtime, void* p);

void* resize(const Runtime& runtime, void* p, size_t size);
void* resize_zeroed(const Runtime& runtime, void* p, size_t count, size_t size);
void* expand(const Runtime& runtime, void* p, size_t size);
size_t size_of(const Runtime& runtime, void* p);

// The address `offset` bytes behind the result is aligned.
void* allocate_aligned(const Runtime& runtime, size_t size, size_t alignment, size_t offset);
void* resize_aligned(const Runtime& runtime, void* p, size_t size, size_t alignment, size_t offset);
void* resize_aligned_zeroed(const Runtime& runtime, void* p, size_t count, size_t size,
                            size_t alignment, size_t offset);
void free_aligned(const Runtime& runtime, void* p);
size_t size_of_aligned(const Runtime& runtime, void* p, size_t alignment, size_t offset);

// _heapwalk: loft's objects are on no heap of Windows.
int refuse_to_walk(const Runtime& runtime);

}  // namespace loft::family
