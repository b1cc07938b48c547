// A message: freed objects in transit to their owner, written into one of them (the carrier). The
// owner touches no other freed object, so a batch costs the same for any number of objects (ISMM'24
// 3.2). The payload has one of two forms:
//
//   bitmap    part of the bitmap of the carrier's slab, for a dense batch. It may extend into
//             objects behind the carrier that are freed with it.
//   records   {slab, word, bits} for any slabs of one owner, for batches of a few objects. One
//             carrier takes many: the cost of a message is moving its cache line between cores.
//
// A medium object (slab/medium_runs.h) is a message without a payload: it stands for itself. So
// does, if messages are keyed (remote/key.h), an object without room for a seal and a word.
//
//   link      next message, 48 bits | tag, 16 bits: form, and first word and number of words, or
//             number of records. The last message has an end mark instead of a next one
//
// The link lies in freed memory, where a program may write. So neither part of a valid link is ever
// zero. The end mark is the message's own address, made odd. It differs from zero, small numbers,
// the program's pointers, and links or marks copied from other messages. One comparison thus tells
// "no successor yet" from "overwritten". (Not detected: a program that reads the old mark from an
// object before writing to it, frees the object, and then writes that value back.) If messages are
// keyed, the link is enciphered and a seal follows it.
//
// The payload includes the carrier's own bit; the records of the carrier's own batch come first. A
// message goes to the owner of the carrier's slab.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/bits.h"
#include "remote/key.h"
#include "slab/geometry.h"

namespace loft {

// Bits of one bitmap word of one slab.
struct Record {
  uint32_t slab;  // metadata index
  uint32_t word;
  uint64_t freed;
};
static_assert(sizeof(Record) == 16);

struct Message {
  Atomic<uint64_t> link;

  uint64_t* words() {
    return reinterpret_cast<uint64_t*>(reinterpret_cast<uintptr_t>(this) + messages::head());
  }
  Record* records() { return reinterpret_cast<Record*>(words()); }
};

inline constexpr unsigned kLinkPointerBits = 48;
inline constexpr uint64_t kLinkPointerMask = (uint64_t{1} << kLinkPointerBits) - 1;

inline Message* next_in(uint64_t link) {
  return reinterpret_cast<Message*>(link & kLinkPointerMask);
}

using Tag = uint16_t;  // nonzero in a valid link

constexpr Tag kRecordsForm = 0x8000;
constexpr unsigned kFirstWordBits = highest_bit(kMaxWords);
static_assert(is_power_of_two(kMaxWords) && kMaxWords << kFirstWordBits < kRecordsForm);
constexpr Tag bitmap_tag(unsigned first_word, unsigned words) {
  return static_cast<Tag>(words << kFirstWordBits | first_word);
}
constexpr Tag records_tag(unsigned count) { return static_cast<Tag>(kRecordsForm | count); }
constexpr Tag kStubTag = records_tag(0);     // no payload
constexpr Tag kAloneTag = bitmap_tag(1, 0);  // none either: the object stands for itself
constexpr bool has_records(Tag tag) { return (tag & kRecordsForm) != 0; }
constexpr unsigned first_word_in(Tag tag) { return tag & ((1u << kFirstWordBits) - 1); }
constexpr unsigned word_count_in(Tag tag) { return tag >> kFirstWordBits; }
constexpr unsigned record_count_in(Tag tag) { return tag & ~unsigned{kRecordsForm}; }

constexpr Tag tag_in(uint64_t link) { return static_cast<Tag>(link >> kLinkPointerBits); }
constexpr uint64_t tag_bits(Tag tag) { return uint64_t{tag} << kLinkPointerBits; }

inline uint64_t end_mark(const Message* message) { return reinterpret_cast<uint64_t>(message) | 1; }
inline uint64_t end_link(const Message* message, Tag tag) {
  return tag_bits(tag) | end_mark(message);
}
inline bool is_end(const Message* message, uint64_t link) {
  return (link & kLinkPointerMask) == end_mark(message);
}
// The link with another next message and the same tag.
inline uint64_t with_next(uint64_t link, const Message* next) {
  return (link & ~kLinkPointerMask) | reinterpret_cast<uint64_t>(next);
}

// written: the word that stands in memory for a link. meant: the link for which a word stands.
inline uint64_t written(const Message* message, uint64_t link) {
  const auto at = reinterpret_cast<uintptr_t>(message);
  return messages::keyed() ? messages::encipher_link(at, link) : link;
}
inline uint64_t meant(const Message* message, uint64_t word) {
  const auto at = reinterpret_cast<uintptr_t>(message);
  return messages::keyed() ? messages::decipher_link(at, word) : word;
}

// The word for the link of the last message once `next` is behind it. `word`: what stood there.
inline uint64_t relinked(const Message* last, uint64_t word, const Message* next) {
  const auto at = reinterpret_cast<uintptr_t>(last);
  return messages::keyed() ? messages::relink(at, word, reinterpret_cast<uintptr_t>(next))
                           : with_next(word, next);
}
// The same with another tag. A message may already be behind this one.
inline uint64_t retagged(const Message* message, uint64_t word, Tag before, Tag tag) {
  const auto at = reinterpret_cast<uintptr_t>(message);
  return messages::keyed() ? messages::retag(at, word, before, tag)
                           : (word & kLinkPointerMask) | tag_bits(tag);
}
// Writes the seal of a message with these words, if it is keyed. Returns the word for its end.
inline uint64_t sealed_end(Message* message, Tag tag, const uint64_t* words, unsigned count) {
  return messages::keyed() ? messages::seal(message, tag, words, count) : end_link(message, tag);
}

// Writes the end of a message that is complete but for its link.
inline void write_end(Message* message, Tag tag) {
  message->link.store(written(message, end_link(message, tag)), memory_order_relaxed);
}
// Writes the whole message of an object that stands for itself.
inline Message* write_alone(void* object) {
  auto* message = static_cast<Message*>(object);
  message->link.store(sealed_end(message, kAloneTag, nullptr, 0), memory_order_relaxed);
  return message;
}

// The seal, so far, of a carrier that has no record yet. add_record goes on with it.
inline uint64_t begin_seal(const Message* carrier) {
  return messages::keyed() ? messages::binding_of(reinterpret_cast<uintptr_t>(carrier)) : 0;
}
inline uint64_t add_record(uint64_t seal, const Record& record) {
  const uint64_t where = record.slab | uint64_t{record.word} << 32;
  return messages::add_word(messages::add_word(seal, where), record.freed);
}

// The number of records that fit into a carrier of `size` bytes.
inline unsigned record_capacity(size_t size) {
  if (LOFT_UNLIKELY(size < messages::around())) return 0;
  return static_cast<unsigned>(
      least<size_t>((size - messages::around()) / sizeof(Record), messages::key.most_records));
}
// The 64-bit words of a payload.
constexpr unsigned payload_words(Tag tag) {
  constexpr unsigned kInRecord = sizeof(Record) / sizeof(uint64_t);
  return has_records(tag) ? kInRecord * record_count_in(tag) : word_count_in(tag);
}

// Messages linked by one thread before any other sees them. All relaxed: the exchange or the
// release store that hands the chain over publishes it as a whole.
struct Chain {  // all zero: empty
  Message* first;
  Message* last;

  // The link of `message` must be an end before the next append.
  void append(Message* message) {
    if (first == nullptr) {
      first = message;
    } else {
      const uint64_t link = last->link.load(memory_order_relaxed);
      last->link.store(relinked(last, link, message), memory_order_relaxed);
    }
    last = message;
  }
};

}  // namespace loft
