// The parts of malloc's and free's slow paths that the option `hardened` chooses, once, when the
// library is loaded. Those that the owner of the heaps chooses are in front/modes.h.
#pragma once

#include <cstddef>

#include "base/macros.h"
#include "cache/bins.h"
#include "large/large.h"
#include "space/pagemap.h"

namespace loft::front {

// What is known of a free, in two registers: the call, and the size that the caller names.
struct Freed {
  size_t size;
  bool has_size;
  bool by_delete;
  Maker maker;            // that fits the call: kMalloc for free
  uint8_t alignment_log;  // that the caller names; 0: none
};

struct Parts {
  // An object above kSmallMax, or aligned to more. nullptr and ENOMEM without memory.
  void* (*allocate_long)(size_t size, size_t alignment, bool zeroed, Maker maker);
  void (*free)(void* p);  // by the call of this name; keeps errno
  void (*free_as)(void* p, Freed freed);
  void* (*reallocate)(void* p, size_t size);
  size_t (*usable_size)(const char* call, const void* p);
  // Another length for an object that stays where it is. False, and nothing has changed, if it
  // cannot. size > 0. `call`, here as elsewhere, is the name that reports of misuse give.
  bool (*expand)(const char* call, void* p, size_t size);
  // The largest size of an object that takes no more memory than one of `size` bytes, which is at
  // least 1. `alignment` is a power of two.
  size_t (*good_size)(size_t alignment, size_t size);
  // Stops the program if `bytes` bytes from p on begin in an object and do not end in it.
  void (*check_bounds)(const char* call, const void* p, size_t bytes);
  // What usable_size returns of the object in the place of `bytes` bytes at p, without a report; 0
  // if the program has none there. Beside threads that allocate and free.
  size_t (*size_in)(const void* p, size_t bytes);
  bool clears;  // all objects read as zero when they are handed out
};

extern LOFT_HIDDEN const Parts ordinary;
// Read-only (base/sealed.h).
extern LOFT_HIDDEN const Parts* in_use;
// When the library is loaded. False if the system refuses.
bool use(const Parts& parts);

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
// An object that large::allocate made, in place or by moving its pages. nullptr: the caller copies.
void* resize_large(Large* object, size_t size);
size_t size_in_ordinary(const void* p, size_t bytes);

}  // namespace loft::front
