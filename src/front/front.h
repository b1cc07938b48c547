// The parts of malloc's and free's slow paths that the option `hardened` chooses, once, when the
// library is loaded. Those that the owner of the heaps chooses are in front/modes.h.
#pragma once

#include <cstddef>

#include "base/macros.h"
#include "cache/bins.h"
#include "space/pagemap.h"

namespace loft::front {

// What is known of a free, in two registers: the call, and the size that the caller names.
struct Freed {
  size_t size;
  bool has_size;
  bool by_delete;
  Maker maker;  // that fits the call: kMalloc for free
};

struct Parts {
  // An object above kSmallMax, or aligned to more. nullptr and ENOMEM without memory.
  void* (*allocate_long)(size_t size, size_t alignment, bool zeroed, Maker maker);
  void (*free)(void* p);  // by the call of this name; keeps errno
  void (*free_as)(void* p, Freed freed);
  void* (*reallocate)(void* p, size_t size);
  size_t (*usable_size)(const void* p);
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
size_t usable_size_ordinary(const void* p);
size_t size_in_ordinary(const void* p, size_t bytes);

}  // namespace loft::front
