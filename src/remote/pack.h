// Packs an open batch into messages of the bitmap form: (a) into one, if adjacent freed objects
// have room for all its words; or (b) into several, each with the words that fit into one object.
// Also writes a batch as records, for a carrier that takes batches of several slabs.
//
// With hardened=full only (b), and without the carrier's last eight bytes: they are its tag
// (hard/tag.h), which is looked at when the object behind it is freed. Records never reach as far.
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
  const size_t bytes = sizeof(Message) + size_t{end - first} * sizeof(uint64_t);
  const auto length = static_cast<unsigned>((bytes + shape.size - 1) / shape.size);
  for (unsigned word = end; word-- > first;) {
    const uint64_t starts = starts_of_runs(words[word], length);
    if (starts != 0) return size_t{word} * 64 + highest_bit(starts);
  }
  return kNoRun;
}

constexpr unsigned cache_lines_of(unsigned words) {
  return static_cast<unsigned>((sizeof(Message) + words * sizeof(uint64_t) + 63) / 64);
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

// How many words one carrier takes.
inline unsigned words_in_one(const Geometry& shape) {
  constexpr size_t kTaken = sizeof(Message) + sizeof(uint64_t);
  // The smallest class has no tags, and room for one word.
  if (LOFT_LIKELY(!free_reads_as_zero) || shape.size <= kTaken) return shape.carrier_words;
  return least(unsigned{shape.carrier_words},
               static_cast<unsigned>((shape.size - kTaken) / sizeof(uint64_t)));
}

// The number of messages for these words, with one carrier each.
constexpr unsigned carriers_needed(const Geometry& shape, uint64_t used) {
  unsigned carriers = 0;
  for (; used != 0; used = from_word(used, lowest_bit(used) + shape.carrier_words)) ++carriers;
  return carriers;
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
  const auto write = [&](size_t object, unsigned first, unsigned count) {
    auto* message = reinterpret_cast<Message*>(base + object * shape.size);
    for (unsigned i = 0; i < count; ++i) {
      message->words()[i] = words[first + i];
      words[first + i] = 0;
    }
    message->link.store(end_link(message, bitmap_tag(first, count)), memory_order_relaxed);
    emit(message);
  };
  if (used == 0) return;
  const unsigned end = highest_bit(used) + 1;
  unsigned first = lowest_bit(used);
  const unsigned most = words_in_one(shape);
  if (end - first > most && LOFT_LIKELY(!free_reads_as_zero) &&
      cache_lines_of(end - first) <= carriers_needed(shape, used)) {
    const size_t run = highest_run(shape, words, first, end);
    if (run != kNoRun) return write(run, first, end - first);
  }
  for (; used != 0; used = from_word(used, first)) {
    first = lowest_bit(used);
    const unsigned count = least<unsigned>(most, end - first);
    write(size_t{first} * 64 + highest_bit(words[first]), first, count);
    first += count;
  }
}

// Whether every object that the message occupies is among those it returns, as the sender made it.
// So a corrupted link never makes the receiver read objects that are not freed.
inline bool carries_itself(Message* message, unsigned first_word, unsigned end, const Slab* slab) {
  const size_t bytes = sizeof(Message) + size_t{end - first_word} * sizeof(uint64_t);
  const uint32_t first = slab->object_starting_at(message);
  if (first == kNoObject) return false;
  const unsigned word = first / 64;
  const unsigned bit = first % 64;
  // No division in the common case: one carrier that holds the whole message.
  const size_t size = slab->shape().size;
  const size_t carriers = bytes <= size ? 1 : (bytes + size - 1) / size;
  if (word < first_word || word >= end || bit + carriers > 64) return false;
  // Memory behind the last object may be unmapped.
  if (first + carriers > slab->shape().objects) return false;
  const uint64_t mask = ~uint64_t{0} >> (64 - carriers) << bit;
  return (message->words()[word - first_word] & mask) == mask;
}

// Writes a batch as records, one for each used word, and clears its words. Returns the end of the
// records.
inline Record* write_records(uint32_t slab, uint64_t* words, uint64_t used, Record* to) {
  for (; used != 0; used &= used - 1) {
    const unsigned word = lowest_bit(used);
    *to++ = Record{slab, word, words[word]};
    words[word] = 0;
  }
  return to;
}

}  // namespace loft
