// Helpers of the surface tests. These tests call malloc by its own names; without the marked parts
// they hold for any libc with glibc's semantics.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace surface {

inline constexpr size_t kMiB = size_t{1} << 20;

// Hides a value from the compiler, which otherwise knows malloc too well: it folds sizes, drops
// unused objects and warns about calls that must fail.
template <class T>
T opaque(T value) {
  __asm__ volatile("" : "+r"(value) : : "memory");
  return value;
}

// Sizes that no allocator can serve, from the first forbidden one upwards.
inline constexpr size_t kImpossible[] = {size_t{PTRDIFF_MAX} + 1, size_t{PTRDIFF_MAX} + 4096,
                                         SIZE_MAX - 4096,         SIZE_MAX - 64,
                                         SIZE_MAX - 15,           SIZE_MAX};

inline bool aligned(const void* p, size_t alignment) {
  return reinterpret_cast<uintptr_t>(p) % alignment == 0;
}

inline bool runs_under(std::string_view mode) {
  const char* hardened = std::getenv("LOFT_HARDENED");
  return hardened != nullptr && hardened == mode;
}

// Whether objects have tags, fences and guards (the option `hardened`), and what follows from that:
// a usable size is what was asked for, and freed memory is not there for the next object.
inline bool hardened() { return runs_under("full"); }

// Any object may be a sample, whose place is as long as was asked for and which knows its maker.
inline bool guarded() { return runs_under("guard"); }

}  // namespace surface
