// How a free object says which one comes next: plainly, or keyed, so that a program that writes
// into memory it has freed is found out (the corruption-detecting configuration of section 4).
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/macros.h"

namespace engine::pages {

// A free object. It is at least 16 bytes long.
struct Object {
  uintptr_t link;
  uintptr_t message;  // of the first object of a batch: how many they are, and the next batch
};

struct PlainLinks {
  static constexpr bool kChecked = false;
  static uintptr_t hide(const Object* p, uint64_t) { return reinterpret_cast<uintptr_t>(p); }
  static Object* reveal(uintptr_t link, uint64_t) { return reinterpret_cast<Object*>(link); }
};

// Written before there is a heap, and with it the first object. Whoever has an object sees it.
extern LOFT_HIDDEN uint64_t global_key;

// A key of the slab and a global one, as the paper has it for snmalloc (3.2): the thread that frees
// can write the link without reading what the owner writes.
struct KeyedLinks {
  static constexpr bool kChecked = true;
  static uintptr_t hide(const Object* p, uint64_t key) {
    return reinterpret_cast<uintptr_t>(p) ^ key ^ global_key;
  }
  static Object* reveal(uintptr_t link, uint64_t key) {
    return reinterpret_cast<Object*>(link ^ key ^ global_key);
  }
};

#if !defined(PAGES_CHECKS)
#define PAGES_CHECKS 0
#endif
using Links = std::conditional_t<PAGES_CHECKS != 0, KeyedLinks, PlainLinks>;

// Spreads a number over 64 bits, so that a key tells nothing of the next one.
constexpr uint64_t mix(uint64_t n) {
  n = (n ^ n >> 32) * 0xD6E8FEB86659FD93u;
  n = (n ^ n >> 32) * 0xD6E8FEB86659FD93u;
  return n ^ n >> 32;
}

// One line that names the object whose link was wrong, and the end of the program.
[[noreturn]] void stop_at(const void* object, size_t bytes);

}  // namespace engine::pages
