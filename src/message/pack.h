// Packs an open batch into messages: into one of the bitmap form, where freed objects beside each
// other have room for all its words, or into as many as it takes, each of the words that fit into
// one object. And into records, for a carrier that takes batches of several slabs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/bits.h"
#include "message/message.h"
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

// The highest run of freed objects that lie beside each other and have room for a message of
// the words from `first` to `end`. kNoRun if there is none.
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

// How many messages the words are, one carrier each.
inline unsigned carriers_needed(const Geometry& shape, const uint64_t* words, unsigned first,
                                unsigned end) {
  unsigned carriers = 0;
  while (first < end) {
    const bool empty = words[first] == 0;
    first += empty ? 1 : shape.carrier_words;
    carriers += empty ? 0 : 1;
  }
  return carriers;
}

// `words` is a bitmap as long as the slab's, and is all zero afterwards. Calls emit(message) for
// each message, whose link is null but for its tag. Words are cleared before the message that holds
// them is emitted, in program order: a thread that dies in a fork in between loses them rather than
// sending them twice.
//
// The highest objects carry: the lowest are the first that the owner hands out again. A batch of
// small objects that was freed densely is one message, in several of them side by side, unless that
// is longer than what it saves; so 1024 objects of 16 bytes go home in 136 bytes in a row, not in
// sixteen places.
template <class Emit>
void pack(uintptr_t base, const Geometry& shape, uint64_t* words, Emit&& emit) {
  const auto write = [&](size_t object, unsigned first, unsigned count) {
    auto* message = reinterpret_cast<Message*>(base + object * shape.size);
    for (unsigned i = 0; i < count; ++i) {
      message->words()[i] = words[first + i];
      words[first + i] = 0;
    }
    message->link.store(end_link(bitmap_tag(first, count)), memory_order_relaxed);
    compiler_fence();
    emit(message);
  };
  unsigned first = 0;
  unsigned end = shape.words;
  while (first < end && words[first] == 0) ++first;
  while (first < end && words[end - 1] == 0) --end;
  if (end - first > shape.carrier_words &&
      cache_lines_of(end - first) <= carriers_needed(shape, words, first, end)) {
    const size_t run = highest_run(shape, words, first, end);
    if (run != kNoRun) return write(run, first, end - first);
  }
  while (first < end) {
    if (words[first] == 0) {
      ++first;
      continue;
    }
    const unsigned count = least<unsigned>(shape.carrier_words, end - first);
    write(size_t{first} * 64 + highest_bit(words[first]), first, count);
    first += count;
  }
}

// Whether all objects that the message lies in are among those it brings home, as its sender made
// it: whatever a write after free left in the link, nobody reads what is not freed.
inline bool carries_itself(Message* message, unsigned first_word, unsigned end, const Slab* slab) {
  const size_t bytes = sizeof(Message) + size_t{end - first_word} * sizeof(uint64_t);
  const uint32_t first = slab->object_starting_at(message);
  if (first == kNoObject) return false;
  const unsigned word = first / 64;
  const unsigned bit = first % 64;
  // No division for the ordinary case, one carrier that its message does not outgrow.
  const size_t size = slab->shape().size;
  const size_t carriers = bytes <= size ? 1 : (bytes + size - 1) / size;
  if (word < first_word || word >= end || bit + carriers > 64) return false;
  const uint64_t mask = ~uint64_t{0} >> (64 - carriers) << bit;
  return (message->words()[word - first_word] & mask) == mask;
}

// How many records a batch is.
inline unsigned records_needed(const Geometry& shape, const uint64_t* words) {
  unsigned needed = 0;
  for (unsigned word = 0; word < shape.words; ++word) needed += words[word] != 0 ? 1u : 0u;
  return needed;
}

// Writes a batch as records and clears its words. Returns the end of what it wrote.
inline Record* write_records(uint32_t slab, const Geometry& shape, uint64_t* words, Record* to) {
  for (unsigned word = 0; word < shape.words; ++word) {
    if (words[word] == 0) continue;
    *to++ = Record{slab, word, words[word]};
    words[word] = 0;
  }
  return to;
}

}  // namespace loft
