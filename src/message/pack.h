// Packs an open batch into messages of the bitmap form: each carrier is a freed object of the
// batch, each takes the words that fit into it, starting with a word that is not empty. And into
// records, for a carrier that takes batches of several slabs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/bits.h"
#include "message/message.h"
#include "slab/geometry.h"

namespace loft {

// `words` is a bitmap as long as the slab's, and is all zero afterwards. Calls emit(message) for
// each message, whose link is null but for its first word. Words are cleared before the message
// that holds them is emitted, in program order: a thread that dies in a fork in between loses them
// rather than sending them twice.
template <class Emit>
void pack(uintptr_t base, const Geometry& shape, uint64_t* words, Emit&& emit) {
  unsigned word = 0;
  while (word < shape.words) {
    if (words[word] == 0) {
      ++word;
      continue;
    }
    const unsigned count = least<unsigned>(shape.carrier_words, shape.words - word);
    // The highest object of the word: the lowest are the first that the owner hands out again.
    const size_t object = size_t{word} * 64 + highest_bit(words[word]);
    auto* message = reinterpret_cast<Message*>(base + object * shape.size);
    for (unsigned i = 0; i < count; ++i) {
      message->words()[i] = words[word + i];
      words[word + i] = 0;
    }
    message->link.store(end_link(bitmap_tag(word)), memory_order_relaxed);
    compiler_fence();
    emit(message);
    word += count;
  }
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
