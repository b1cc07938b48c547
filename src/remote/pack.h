// Packs an open batch into messages of the bitmap form: (a) into one, if adjacent freed objects
// have room for all its words; or (b) into several, each with the words that fit into one object.
// Also writes a batch as records, for a carrier that takes batches of several slabs.
//
// With hardened=full only (b), and without the carrier's last eight bytes: they are the object's
// tag (hardened/tag.h), which the free of the object behind it checks. Records never reach as far.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/bits.h"
#include "remote/message.h"
#include "slab/geometry.h"
#include "slab/slab.h"

namespace loft {

// The bits at which runs of `length` set bits begin.
constexpr uint64_t starts_of_runs(uint64_t word, unsigned length) {
  while (length > 1) {
    const unsigned half = length / 2;
    word &= word >> half;
    length -= half;
  }
  return word;
}

// The highest run of adjacent freed objects with room for a message of the words `first` to `end`.
// kNoRun if there is none.
inline constexpr size_t kNoRun = ~size_t{0};
inline size_t highest_run(const Geometry& shape, const uint64_t* words, unsigned first,
                          unsigned end) {
  const size_t bytes = messages::around() + size_t{end - first} * sizeof(uint64_t);
  const auto length = static_cast<unsigned>((bytes + shape.size - 1) / shape.size);
  for (unsigned word = end; word-- > first;) {
    const uint64_t starts = starts_of_runs(words[word], length);
    if (starts != 0) return size_t{word} * 64 + highest_bit(starts);
  }
  return kNoRun;
}

inline unsigned cache_lines_of(unsigned words) {
  return static_cast<unsigned>((messages::head() + words * sizeof(uint64_t) + 63) / 64);
}

// A bit for each nonzero word. Tests a cache line of words at a time, because most batches sent by
// an eviction have few objects. So `words` must be as long as the longest bitmap.
inline uint64_t used_words(const Geometry& shape, const uint64_t* words) {
  constexpr unsigned kStep = 8;
  uint64_t used = 0;
  for (unsigned first = 0; first < shape.words; first += kStep) {
    uint64_t any = 0;
    for (unsigned i = 0; i < kStep; ++i) any |= words[first + i];
    if (any == 0) continue;
    for (unsigned i = 0; i < kStep; ++i) {
      used |= uint64_t{words[first + i] != 0} << (first + i);
    }
  }
  return used & ~uint64_t{0} >> (64 - shape.words);
}

// The used words from `first` on.
constexpr uint64_t from_word(uint64_t used, unsigned first) {
  return first < kMaxWords ? used >> first << first : 0;
}

// Bitmap words that fit into one freed object; 0 if a seal leaves no room. shape.carrier_words
// allows for a link alone.
inline unsigned carrier_words(const Geometry& shape) {
  const auto around = static_cast<unsigned>(messages::around() / sizeof(uint64_t));
  return shape.carrier_words >= around ? shape.carrier_words + 1u - around : 0;
}

// The number of messages for these words, with one carrier each.
inline unsigned carriers_needed(uint64_t used, unsigned words) {
  unsigned carriers = 0;
  for (; used != 0; used = from_word(used, lowest_bit(used) + words)) ++carriers;
  return carriers;
}

// Moves `count` words of a batch, from `first` on, into a message that begins at object number
// `object`.
LOFT_ALWAYS_INLINE Message* write_bitmap(uintptr_t base, const Geometry& shape, uint64_t* words,
                                         size_t object, unsigned first, unsigned count) {
  auto* message = reinterpret_cast<Message*>(base + object * shape.size);
  const uint64_t link = sealed_end(message, bitmap_tag(first, count), words + first, count);
  uint64_t* const to = message->words();
  for (unsigned i = 0; i < count; ++i) {
    to[i] = words[first + i];
    words[first + i] = 0;
  }
  message->link.store(link, memory_order_relaxed);
  return message;
}

// For objects that have no room for a word: two adjacent ones carry some; where there are none,
// each object of the word is a message that stands for itself.
template <class Emit>
LOFT_NOINLINE void pack_in_pairs(uintptr_t base, const Geometry& shape, uint64_t* words,
                                 uint64_t used, unsigned end, Emit&& emit) {
  const auto most_words =
      static_cast<unsigned>((2 * shape.size - messages::around()) / sizeof(uint64_t));
  unsigned first = 0;
  for (; used != 0; used = from_word(used, first)) {
    first = lowest_bit(used);
    const size_t object = size_t{first} * 64;
    if (const uint64_t pairs = starts_of_runs(words[first], 2); pairs != 0) {
      const unsigned count = least(most_words, end - first);
      emit(write_bitmap(base, shape, words, object + highest_bit(pairs), first, count));
      first += count;
      continue;
    }
    for (; words[first] != 0; words[first] &= words[first] - 1) {
      const uintptr_t at = base + (object + lowest_bit(words[first])) * shape.size;
      emit(write_alone(reinterpret_cast<void*>(at)));
    }
    ++first;
  }
}

// `used` names the nonzero words. All words are zero afterwards. Calls emit(message) for each
// message, whose link is an end.
//
// The highest objects become carriers, because the owner hands out the lowest first. A dense batch
// of small objects becomes one message in several adjacent objects, unless it would span more
// cache lines than it saves carriers. So 1024 objects of 16 bytes return in 136 contiguous bytes,
// not in sixteen places.
template <class Emit>
void pack(uintptr_t base, const Geometry& shape, uint64_t* words, uint64_t used, Emit&& emit) {
  if (used == 0) return;
  const unsigned end = highest_bit(used) + 1;
  unsigned first = lowest_bit(used);
  const unsigned fitting = carrier_words(shape);
  // Where objects end in a tag, no message goes beyond one.
  if (end - first > fitting && LOFT_LIKELY(messages::around() == messages::head()) &&
      cache_lines_of(end - first) <= carriers_needed(used, most(fitting, 1u))) {
    const size_t run = highest_run(shape, words, first, end);
    if (run != kNoRun) return emit(write_bitmap(base, shape, words, run, first, end - first));
  }
  if (LOFT_UNLIKELY(fitting == 0)) return pack_in_pairs(base, shape, words, used, end, emit);
  for (; used != 0; used = from_word(used, first)) {
    first = lowest_bit(used);
    const unsigned count = least(fitting, end - first);
    emit(write_bitmap(base, shape, words, size_t{first} * 64 + highest_bit(words[first]), first,
                      count));
    first += count;
  }
}

// Whether the message returns every object in which it lies, as each valid one does. So a corrupted
// link never makes the receiver read objects that are not freed.
inline bool carries_itself(const Message* message, const uint64_t* words, unsigned first_word,
                           unsigned end, const Slab* slab) {
  const size_t bytes = messages::around() + size_t{end - first_word} * sizeof(uint64_t);
  const uint32_t first = slab->object_starting_at(message);
  if (first == kNoObject) return false;
  const unsigned word = first / 64;
  const unsigned bit = first % 64;
  // No division in the common case: the message lies in one object.
  const size_t size = slab->shape().size;
  const size_t objects = bytes <= size ? 1 : (bytes + size - 1) / size;
  if (word < first_word || word >= end || bit + objects > 64) return false;
  // Memory behind the last object may be unmapped.
  if (first + objects > slab->shape().objects) return false;
  const uint64_t mask = ~uint64_t{0} >> (64 - objects) << bit;
  return (words[word - first_word] & mask) == mask;
}

// Writes one record and, if messages are keyed, adds it to the carrier's seal so far.
inline void write_record(const Record& record, Record* to, uint64_t* seal) {
  *to = record;
  if (messages::keyed()) *seal = add_record(*seal, record);
}

// Writes a batch as records, one for each used word, and clears its words. Returns the end of the
// records.
inline Record* write_records(uint32_t slab, uint64_t* words, uint64_t used, Record* to,
                             uint64_t* seal) {
  for (; used != 0; used &= used - 1) {
    const unsigned word = lowest_bit(used);
    write_record(Record{slab, word, words[word]}, to++, seal);
    words[word] = 0;
  }
  return to;
}

}  // namespace loft
