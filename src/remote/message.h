// A message: freed objects on their way home, written into one of them (the carrier). The owner
// touches no other freed object (a batch costs the same however many objects it carries:
// ISMM'24 3.2). Its payload has one of two forms:
//
//   bitmap    a piece of the bitmap of the carrier's slab, for a batch that is dense. It may go on
//             into the objects behind the carrier that are freed with it.
//   records   {slab, word, bits} for any slabs of one owner. For batches of a few objects, of which
//             one carrier then brings home many: what a message costs is the way of its cache line
//             from core to core.
//
//   link      next message, 48 bits | tag, 16 bits: form, and first word and number of words, or
//             number of records. The last message has an end mark instead of a next one
//
// The link lies in freed memory, and a program may write there. So neither part of a valid link is
// ever zero. The end mark is the message's own address, made odd: no zero, no small number, no
// pointer of the program's and no link or mark copied from another message is taken for it. Whoever
// reads a link tells "nobody has followed yet" from "overwritten" by one comparison. (A program
// that reads the old mark of an object that it has not yet written to, and writes just that back
// after it has freed the object, is not told apart.)
//
// The carrier's own bit is among the payload; with records, among the first ones, of its own batch.
// Which owner it is for follows from the carrier's address.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/bits.h"
#include "slab/geometry.h"

namespace loft {

// The bits of one bitmap word of one slab.
struct Record {
  uint32_t slab;  // metadata index
  uint32_t word;
  uint64_t freed;
};
static_assert(sizeof(Record) == 16);

struct Message {
  Atomic<uint64_t> link;

  uint64_t* words() { return reinterpret_cast<uint64_t*>(this + 1); }
  Record* records() { return reinterpret_cast<Record*>(this + 1); }
};

inline constexpr unsigned kLinkPointerBits = 48;
inline constexpr uint64_t kLinkPointerMask = (uint64_t{1} << kLinkPointerBits) - 1;

inline Message* next_in(uint64_t link) {
  return reinterpret_cast<Message*>(link & kLinkPointerMask);
}

using Tag = uint16_t;  // of a valid link, not zero

constexpr Tag kRecordsForm = 0x8000;
constexpr unsigned kFirstWordBits = highest_bit(kMaxWords);
static_assert(is_power_of_two(kMaxWords) && kMaxWords << kFirstWordBits < kRecordsForm);
constexpr Tag bitmap_tag(unsigned first_word, unsigned words) {
  return static_cast<Tag>(words << kFirstWordBits | first_word);
}
constexpr Tag records_tag(unsigned count) { return static_cast<Tag>(kRecordsForm | count); }
constexpr Tag kStubTag = records_tag(0);  // of what carries nothing
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
// The same tag, and a next message.
inline uint64_t with_next(uint64_t link, const Message* next) {
  return (link & ~kLinkPointerMask) | reinterpret_cast<uint64_t>(next);
}

// How many records fit into a carrier of `size` bytes. More than some would only lengthen the time
// between two looks at a drain's budget.
inline constexpr unsigned kMaxRecords = 127;
constexpr unsigned record_capacity(size_t size) {
  const size_t fitting = (size - sizeof(Message)) / sizeof(Record);
  return fitting < kMaxRecords ? static_cast<unsigned>(fitting) : kMaxRecords;
}

// Messages linked by one thread before anybody else sees them. Relaxed everywhere: the exchange or
// release store that hands the chain over publishes it whole.
struct Chain {  // all zero: empty
  Message* first;
  Message* last;

  // The link of `message` is an end.
  void append(Message* message) {
    if (first == nullptr) {
      first = message;
    } else {
      const uint64_t link = last->link.load(memory_order_relaxed);
      last->link.store(with_next(link, message), memory_order_relaxed);
    }
    last = message;
  }
};

}  // namespace loft
