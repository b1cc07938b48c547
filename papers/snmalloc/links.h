// The links of a slab's free list, inside its free objects (2.8), and the link of a ring, which is
// the free list's of the ring's tail (BatchIt 3.2).
//
// A link is an offset in the slab: even, of a free object; odd, where the bump space begins; or
// kFull, after the last free object of a slab without bump space.
//
// The last free object also has the node of the list of slabs. As the paper has it, the node's
// first word is that object's link: the list is used through its first slab alone, whose previous
// one is all ones, as kFull is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/bits.h"
#include "base/macros.h"
#include "batchit/ring.h"
#include "snmalloc/size_classes.h"
#include "snmalloc/words.h"

namespace snmalloc {

using Offset = uint16_t;
inline constexpr Offset kFull = 0xffff;
inline constexpr Offset kBump = 1;

constexpr uintptr_t slab_of(uintptr_t address) { return address & ~uintptr_t{kSlab - 1}; }
constexpr bool is_object(unsigned link) { return (link & kBump) == 0; }

struct PlainLinks {
  static constexpr size_t kNode = 0;  // where the node is in its object: its previous overlaps

  static Offset next(uintptr_t slab, Offset at) { return static_cast<Offset>(word_at(slab + at)); }
  static void set_next(uintptr_t slab, Offset at, Offset to) { word_at(slab + at) = to; }
  static Ring ring(uintptr_t tail) { return Ring(word_at(tail)); }
  static void set_ring(uintptr_t tail, Ring ring) { word_at(tail) = ring.word(); }
};

// Obfuscated, with obfuscated backward edges (BatchIt 3.2, third and fourth). The key of a slab is
// a global one and the slab's tweak, which whoever frees an object of the slab can compute.
//
//   word 0  the link of the free list     word 1  the backward edge of who links here
//   word 2, 3  the same of the queue (message.h); in the last free object the node
struct KeyedLinks {
  static constexpr size_t kNode = 16;
  static constexpr size_t kBack = 8;

  static uint64_t key;  // set before the first object is made

  static uint64_t key_of(uintptr_t slab) { return key ^ slab * 0x9E3779B97F4A7C15u; }
  // What an object says of the one that links to it.
  static uint64_t edge(uintptr_t from) {
    const uint64_t mixed = (from ^ key_of(slab_of(from))) * 0xD6E8FEB86659FD93u;
    return mixed ^ mixed >> 32;
  }

  static Offset next(uintptr_t slab, Offset at) {
    const uint64_t link = word_at(slab + at) ^ key_of(slab);
    if (LOFT_UNLIKELY(link > kFull)) corrupted(slab + at);
    if (is_object(static_cast<unsigned>(link))) check_edge(slab + at, slab + link);
    return static_cast<Offset>(link);
  }
  static void set_next(uintptr_t slab, Offset at, Offset to) {
    word_at(slab + at) = to ^ key_of(slab);
    if (is_object(to)) word_at(slab + to + kBack) = edge(slab + at);
  }
  // The link from tail to head is obfuscated and checked like the others.
  static Ring ring(uintptr_t tail) {
    const Ring ring(word_at(tail) ^ key_of(slab_of(tail)));
    const uintptr_t head = ring.head(tail);
    if (LOFT_UNLIKELY(slab_of(head) != slab_of(tail) || ring.count() == 0)) corrupted(tail);
    check_edge(tail, head);
    return ring;
  }
  static void set_ring(uintptr_t tail, Ring ring) {
    word_at(tail) = ring.word() ^ key_of(slab_of(tail));
    word_at(ring.head(tail) + kBack) = edge(tail);
  }

  [[noreturn]] static void corrupted(uintptr_t object);

 private:
  static void check_edge(uintptr_t from, uintptr_t to) {
    if (LOFT_UNLIKELY(to % 16 != 0 || word_at(to + kBack) != edge(from))) corrupted(from);
  }
};

using Links = std::conditional_t<Config::kChecks, KeyedLinks, PlainLinks>;

}  // namespace snmalloc
