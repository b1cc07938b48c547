// What travels between allocators. A message is a freed object, named by its address; its words say
// where it goes and what follows it in its list.
//
//   ObjectMessage   the object alone: next, owner (2.2)
//   BatchMessage    the tail of a ring of objects of one slab: the ring's word, and behind it next
//                   (BatchIt 3.2, first). Its owner is the chunk's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "snmalloc/chunk_header.h"
#include "snmalloc/links.h"
#include "snmalloc/words.h"

namespace snmalloc {

// Release and acquire pair: who sees a message behind another sees what its sender wrote into it,
// and the objects as their users left them. In a list that has not been sent they cost nothing on
// x86-64.
template <size_t at>
struct PlainQueueLinks {
  static bool has_next(uintptr_t message) {
    // Relaxed: a hint. Who acts on it calls next.
    return __atomic_load_n(&word_at(message + at), __ATOMIC_RELAXED) != 0;
  }
  static uintptr_t next(uintptr_t message) {
    return __atomic_load_n(&word_at(message + at), __ATOMIC_ACQUIRE);
  }
  static void set_next(uintptr_t message, uintptr_t next) {
    __atomic_store_n(&word_at(message + at), next, __ATOMIC_RELEASE);
  }
  // Relaxed: the exchange that makes it reachable releases it.
  static void end(uintptr_t message) {
    __atomic_store_n(&word_at(message + at), 0, __ATOMIC_RELAXED);
  }
};

// With the global key, and an edge back in the word behind (BatchIt 3.2). As with the ring, the
// edge is written before the link that leads there is.
template <size_t at>
struct KeyedQueueLinks : PlainQueueLinks<at> {
  using Plain = PlainQueueLinks<at>;
  static constexpr size_t kBack = at + sizeof(Word);

  static uintptr_t next(uintptr_t message) {
    const uint64_t link = Plain::next(message);
    if (link == 0) return 0;
    const uintptr_t next = link ^ KeyedLinks::key;
    // Before a word of it is read: a message is in a chunk of ours.
    if (LOFT_UNLIKELY(next % 16 != 0 || !is_mapped(next) || kind_of(next) == ChunkKind::unknown() ||
                      word_at(next + kBack) != KeyedLinks::edge(message))) {
      KeyedLinks::corrupted(message);
    }
    return next;
  }
  static void set_next(uintptr_t message, uintptr_t next) {
    word_at(next + kBack) = KeyedLinks::edge(message);
    Plain::set_next(message, next ^ KeyedLinks::key);
  }
};

struct ObjectMessage {
  using Queue = PlainQueueLinks<0>;
  static constexpr size_t kOwner = 8;

  static void write(uintptr_t object, Allocator* owner) {
    word_at(object + kOwner) = reinterpret_cast<uintptr_t>(owner);
  }
  static Allocator* owner(uintptr_t message) {
    return reinterpret_cast<Allocator*>(word_at(message + kOwner));
  }
  static unsigned objects(uintptr_t) { return 1; }
};

struct BatchMessage {
  using Queue = std::conditional_t<Config::kChecks, KeyedQueueLinks<16>, PlainQueueLinks<8>>;

  // An object that is in no batch is a ring of itself.
  static void write(uintptr_t object, Allocator*) {
    Links::set_ring(object, Ring(object, object, 1));
  }
  static Allocator* owner(uintptr_t message) { return header_of(message)->owner; }
  static unsigned objects(uintptr_t message) { return Links::ring(message).count(); }
};

using Message = std::conditional_t<Config::kBatches, BatchMessage, ObjectMessage>;

}  // namespace snmalloc
