// What the core's policies do, for guests that do the same of some objects.
#pragma once

#include <cstddef>

#include "cache/thread_cache.h"
#include "malloc/policy.h"

namespace loft {

// --- Objects above kSmallMax, or aligned to more, beyond the cache of one. ---

// nullptr and ENOMEM without memory. `alignment` is a power of two.
void* allocate_large(size_t size, size_t alignment, bool zeroed);
void* allocate_medium(size_t size);  // of a medium size

// Stops the program if no object is there. Keeps errno.
void free_large(Large* object);
void free_medium(void* p, Entry entry);

// --- Any object. ---

void free_ordinary(void* p);
void* take_zero_ordinary(ObjectRequest request);
void check_bounds_ordinary(const char* call, const void* p, size_t bytes);
void* reallocate_ordinary(void* p, size_t size);
// A new object of `size` bytes, with the first `held` at most of the one at p, which is freed.
void* reallocate_by_copy(void* p, size_t held, size_t size);
void* reallocate_small(void* p, Entry entry, size_t size);  // p: the start of an object in a slab
size_t usable_size_ordinary(const char* call, const void* p);
bool expand_ordinary(const char* call, void* p, size_t size);
size_t good_size_ordinary(size_t alignment, size_t size);
// Whether an object in a slab stays in its place of `usable` bytes. None is shorter than the first
// class's, with a tag the second's.
inline bool stays(size_t usable, size_t size) {
  return size <= usable && (size >= usable / 2 || usable < 2 * kMinObject);
}
// An object of a guest's (cache/guest.h).
void* reallocate_guest(const char* call, void* p, Entry entry, size_t size, size_t alignment);
// A medium object: to the pages of `size` bytes, where it is; false if it cannot. size > kSmallMax
bool resize_in_run(void* p, Entry entry, size_t size);
// A new one, where it can grow to twice that if possible. nullptr: without memory or block.
void* allocate_with_room(size_t size);
void* resize_large_ordinary(Large* object, size_t size, ResizeLarge how);

// For slow paths that found no memory.

// Frees unused memory that may be in the way of the thread's allocation. `thread` is nullptr for a
// thread without a block.
void reclaim(ThreadCache* thread);

}  // namespace loft
