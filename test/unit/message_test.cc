// Messages: both forms of packing, the outbox, and the inbox as one thread sees it. What several
// threads may do to it at once is test/model's to explore.
#include "remote/message.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <vector>

#include "remote/inbox.h"
#include "remote/outbox.h"
#include "remote/pack.h"
#include "space/span.h"
#include "unit/support.h"

namespace loft {
namespace {

using test::link_of;
using test::number;

using Bitmap = std::vector<uint64_t>;

// Memory as large as a slab, where carriers can be written.
class Arena {
 public:
  explicit Arena(const Geometry& shape)
      : memory_(std::make_unique<uint64_t[]>((size_t{shape.granules} << kGranuleLog) / 8)) {}
  uintptr_t base() const { return number(memory_.get()); }

 private:
  std::unique_ptr<uint64_t[]> memory_;
};

// Packs a bitmap and reads the messages as an owner does; returns how many there were.
unsigned expect_round_trip(const Geometry& shape, const Arena& arena, const Bitmap& freed) {
  Bitmap words = freed;
  words.resize(kMaxWords, ~uint64_t{0});  // beyond the slab's last word nothing counts
  Bitmap received(shape.words, 0);
  std::vector<Message*> messages;
  pack(arena.base(), shape, words.data(), used_words(shape, words.data()),
       [&](Message* m) { messages.push_back(m); });
  for (Message* message : messages) {
    const uint64_t link = link_of(message);
    EXPECT_TRUE(is_end(message, link));
    EXPECT_FALSE(has_records(tag_in(link)));
    const unsigned first = first_word_in(tag_in(link));
    const uint64_t offset = number(message) - arena.base();
    EXPECT_EQ(offset % shape.size, 0u);
    if (tag_in(link) == kAloneTag) {
      EXPECT_TRUE(messages::keyed());
      received[offset / shape.size / 64] |= uint64_t{1} << offset / shape.size % 64;
      continue;
    }
    const unsigned count = word_count_in(tag_in(link));
    EXPECT_LE(first + count, shape.words);
    const uint64_t end = offset + messages::head() + count * sizeof(uint64_t);
    for (uint64_t carrier = offset / shape.size; carrier * shape.size < end; ++carrier) {
      EXPECT_NE(freed[carrier / 64] >> carrier % 64 & 1, 0u) << "what carries is freed too";
      EXPECT_LT(carrier / 64 - first, count) << "and with this very message";
    }
    for (unsigned i = 0; i < count; ++i) {
      EXPECT_EQ(received[first + i] & message->words()[i], 0u) << "sent twice";
      received[first + i] |= message->words()[i];
    }
  }
  EXPECT_EQ(received, freed);
  for (unsigned word = 0; word < shape.words; ++word) EXPECT_EQ(words[word], 0u);
  return static_cast<unsigned>(messages.size());
}

uint64_t all_objects(const Geometry& shape, unsigned word) {
  const unsigned rest = shape.objects - word * 64u;
  return rest >= 64 ? ~uint64_t{0} : (uint64_t{1} << rest) - 1;
}

TEST(Pack, EveryDensityOfEveryClass) {
  std::mt19937_64 random(6);
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    const Geometry& shape = geometry(c);
    const Arena arena(shape);
    for (unsigned percent = 0; percent <= 100; percent += 4) {
      Bitmap freed(shape.words, 0);
      for (unsigned i = 0; i < shape.objects; ++i) {
        if (random() % 100 < percent) freed[i / 64] |= uint64_t{1} << i % 64;
      }
      const unsigned messages = expect_round_trip(shape, arena, freed);
      if (messages::keyed()) continue;
      EXPECT_LE(messages, (shape.words + shape.carrier_words - 1u) / shape.carrier_words +
                              (percent < 100 ? shape.words : 0u));
    }
    for (unsigned i = 0; i < shape.objects; i += 1 + i / 16) {
      Bitmap freed(shape.words, 0);
      freed[i / 64] = uint64_t{1} << i % 64;
      EXPECT_EQ(expect_round_trip(shape, arena, freed), 1u);
    }
    if (HasFailure()) FAIL() << shape.size;
  }
}

TEST(Pack, OneCarrierOf64BytesBringsHome448Objects) {
  const Geometry& shape = geometry(class_of(64));
  const Arena arena(shape);
  Bitmap freed(shape.words, 0);
  for (unsigned word = 4; word < 11; ++word) freed[word] = ~uint64_t{0};
  EXPECT_EQ(expect_round_trip(shape, arena, freed), 1u);
  // An eighth word needs a second object: beside the first, or elsewhere.
  freed[11] = 1;
  EXPECT_EQ(expect_round_trip(shape, arena, freed), 1u);
  for (uint64_t& word : freed) word &= 0x5555555555555555;
  EXPECT_EQ(expect_round_trip(shape, arena, freed), 2u);
}

TEST(Pack, SixteenBytesCarryOneWordAlone) {
  const Geometry& shape = geometry(class_of(16));
  ASSERT_EQ(shape.carrier_words, 1);
  const Arena arena(shape);
  // Every other object: none of them has a neighbour.
  EXPECT_EQ(expect_round_trip(shape, arena, Bitmap(shape.words, 0x5555555555555555)), shape.words);
  EXPECT_EQ(expect_round_trip(shape, arena, Bitmap(shape.words, 0)), 0u);
}

TEST(Pack, NeighboursCarryTogether) {
  const Geometry& shape = geometry(class_of(16));
  const Arena arena(shape);
  EXPECT_EQ(expect_round_trip(shape, arena, Bitmap(shape.words, ~uint64_t{0})), 1u);
  // Sixteen words want 136 bytes: nine objects in a row, eight are too few.
  for (const unsigned neighbours : {8u, 9u}) {
    Bitmap freed(shape.words, 0);
    for (unsigned word = 3; word < 19; ++word) freed[word] = 1;
    freed[7] |= ((uint64_t{1} << neighbours) - 1) << 40;
    EXPECT_EQ(expect_round_trip(shape, arena, freed), neighbours == 9 ? 1u : 16u);
  }
}

TEST(Pack, RunsOfSetBits) {
  std::mt19937_64 random(8);
  for (int round = 0; round < 1000; ++round) {
    const uint64_t word = random() | random();
    for (unsigned length = 1; length <= 64; ++length) {
      uint64_t expected = 0;
      for (unsigned at = 0; at + length <= 64; ++at) {
        const uint64_t run = ~uint64_t{0} >> (64 - length) << at;
        if ((word & run) == run) expected |= uint64_t{1} << at;
      }
      ASSERT_EQ(starts_of_runs(word, length), expected) << word << " " << length;
    }
  }
}

TEST(Pack, WholeSlabsOfLargeObjectsFitOneMessage) {
  for (const size_t size : {1024, 4096, 32768}) {
    const Geometry& shape = geometry(class_of(size));
    const Arena arena(shape);
    Bitmap freed(shape.words);
    for (unsigned word = 0; word < shape.words; ++word) freed[word] = all_objects(shape, word);
    EXPECT_EQ(expect_round_trip(shape, arena, freed), 1u) << size;
  }
}

TEST(Records, RoundTrip) {
  std::mt19937_64 random(7);
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    const Geometry& shape = geometry(c);
    Bitmap freed(kMaxWords, 0);
    unsigned words = 0;
    for (unsigned word = 0; word < shape.words; ++word) {
      if (random() % 2 == 0) continue;
      freed[word] = random() | 1;
      ++words;
    }
    const uint64_t used = used_words(shape, freed.data());
    EXPECT_EQ(count_bits(used), words);
    Bitmap left = freed;
    std::vector<Record> records(words + 1);
    uint64_t seal = 0;
    EXPECT_EQ(write_records(4711, left.data(), used, records.data(), &seal),
              records.data() + words);
    EXPECT_EQ(left, Bitmap(kMaxWords, 0));
    Bitmap received(kMaxWords, 0);
    for (unsigned i = 0; i < words; ++i) {
      EXPECT_EQ(records[i].slab, 4711u);
      ASSERT_LT(records[i].word, shape.words);
      received[records[i].word] |= records[i].freed;
    }
    EXPECT_EQ(received, freed);
  }
}

TEST(Records, CapacityStaysInsideTheCarrier) {
  EXPECT_EQ(record_capacity(16), 0u);
  EXPECT_EQ(record_capacity(32), 1u);
  EXPECT_EQ(record_capacity(64), 3u);
  EXPECT_EQ(record_capacity(128), 7u);
  EXPECT_EQ(record_capacity(kSmallMax), kMaxRecords);
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    EXPECT_LE(messages::head() + record_capacity(class_size(c)) * sizeof(Record), class_size(c));
  }
}

TEST(Tags, BothFormsRoundTrip) {
  for (unsigned n = 0; n < kMaxWords; ++n) {
    const Tag tag = bitmap_tag(n, kMaxWords - n);
    EXPECT_FALSE(has_records(tag));
    EXPECT_EQ(first_word_in(tag), n);
    EXPECT_EQ(word_count_in(tag), kMaxWords - n);
    EXPECT_EQ(tag_in(tag_bits(tag)), tag);
    EXPECT_NE(tag, 0);
  }
  for (unsigned n = 1; n <= kMaxRecords; ++n) {
    EXPECT_TRUE(has_records(records_tag(n)));
    EXPECT_EQ(record_count_in(records_tag(n)), n);
    EXPECT_EQ(tag_in(tag_bits(records_tag(n))), records_tag(n));
    EXPECT_NE(records_tag(n), kStubTag);
  }
}

// Messages out of plain memory, numbered by their first word.
class Messages {
 public:
  explicit Messages(unsigned count) : cells_(std::make_unique<Cell[]>(count)) {
    for (unsigned i = 0; i < count; ++i) {
      at(i)->words()[0] = i;
      write_end(at(i), tag_of(i));
    }
  }
  static Tag tag_of(uint64_t i) { return static_cast<Tag>(i % 64 + 1); }

  Message* at(unsigned i) { return reinterpret_cast<Message*>(&cells_[i]); }

  Chain chain(unsigned first, unsigned last) {
    Chain chain{};
    for (unsigned i = first; i <= last; ++i) chain.append(at(i));
    return chain;
  }

  // As a producer that died before it linked what it pushed behind message `i`.
  void cut_after(unsigned i) { write_end(at(i), tag_of(i)); }

  // As a program that writes to a freed object.
  void overwrite(unsigned i, uint64_t word) { at(i)->link.store(word); }

 private:
  struct alignas(64) Cell {
    uint64_t words[8];
  };
  std::unique_ptr<Cell[]> cells_;
};

// The numbers of the messages that one drain consumed; each counts for one byte.
struct Drained {
  std::vector<uint64_t> numbers;
  bool more;
  unsigned cuts = 0;
  bool operator==(const Drained&) const = default;
};

// Whatever has a tag, and leads where an object could be.
bool plausible(uint64_t link) {
  return tag_in(link) != 0 && next_in(link) != nullptr && number(next_in(link)) % 64 == 0;
}

void repair(Inbox& inbox) {
  inbox.repair([](const Message*, uint64_t link) { return plausible(link); });
}

Drained drain(Inbox& inbox, size_t budget = SIZE_MAX) {
  Drained drained{};
  drained.more = inbox.drain(
      budget,
      [&](const Message*, uint64_t link) {
        if (plausible(link)) return true;
        ++drained.cuts;
        return false;
      },
      [&](Message* message, Tag tag) -> size_t {
        drained.numbers.push_back(message->words()[0]);
        EXPECT_EQ(tag, Messages::tag_of(message->words()[0]));
        // It may be reused at once.
        message->link.store(~uint64_t{0});
        message->words()[0] = ~uint64_t{0};
        return 1;
      });
  return drained;
}

std::vector<uint64_t> numbers(uint64_t first, uint64_t last) {
  std::vector<uint64_t> result;
  for (uint64_t i = first; i <= last; ++i) result.push_back(i);
  return result;
}

TEST(Inbox, Empty) {
  Inbox inbox;
  EXPECT_FALSE(inbox.maybe_pending());
  EXPECT_EQ(drain(inbox), (Drained{{}, false}));
  inbox.complete();
  EXPECT_FALSE(inbox.maybe_pending());
  EXPECT_EQ(drain(inbox), (Drained{{}, false}));
}

TEST(Inbox, LastMessageStaysUntilComplete) {
  Inbox inbox;
  Messages messages(1);
  inbox.push(messages.chain(0, 0));
  EXPECT_TRUE(inbox.maybe_pending());
  EXPECT_EQ(drain(inbox), (Drained{{}, false}));
  EXPECT_TRUE(inbox.maybe_pending());
  inbox.complete();
  inbox.complete();  // a second time changes nothing
  EXPECT_EQ(drain(inbox), (Drained{{0}, false}));
  EXPECT_FALSE(inbox.maybe_pending());
  EXPECT_EQ(drain(inbox), (Drained{{}, false}));
}

TEST(Inbox, InOrderOverManyPushes) {
  Inbox inbox;
  Messages messages(100);
  inbox.push(messages.chain(0, 0));
  inbox.push(messages.chain(1, 9));
  EXPECT_EQ(drain(inbox).numbers, numbers(0, 8));
  inbox.push(messages.chain(10, 50));
  EXPECT_EQ(drain(inbox).numbers, numbers(9, 49));
  inbox.complete();
  inbox.push(messages.chain(51, 99));
  EXPECT_EQ(drain(inbox).numbers, numbers(50, 98));
  inbox.complete();
  EXPECT_EQ(drain(inbox).numbers, numbers(99, 99));
  EXPECT_FALSE(inbox.maybe_pending());
}

TEST(Inbox, Budget) {
  Inbox inbox;
  Messages messages(20);
  inbox.push(messages.chain(0, 19));
  // One at least, so that who repeats it comes to an end.
  EXPECT_EQ(drain(inbox, 0), (Drained{{0}, true}));
  EXPECT_EQ(drain(inbox, 1), (Drained{{1}, true}));
  EXPECT_EQ(drain(inbox, 5), (Drained{numbers(2, 6), true}));
  EXPECT_EQ(drain(inbox, 12), (Drained{numbers(7, 18), false}));
  inbox.complete();
  EXPECT_EQ(drain(inbox, 1), (Drained{{19}, false}));
}

TEST(Inbox, BudgetThatStopsBeforeTheQueuedStub) {
  Inbox inbox;
  Messages messages(4);
  inbox.push(messages.chain(0, 1));
  drain(inbox);
  inbox.complete();
  inbox.push(messages.chain(2, 3));
  EXPECT_EQ(drain(inbox, 1), (Drained{{1}, true}));
  EXPECT_TRUE(inbox.maybe_pending());
  EXPECT_EQ(drain(inbox), (Drained{{2}, false}));
  inbox.complete();
  EXPECT_EQ(drain(inbox), (Drained{{3}, false}));
}

// The model is a queue; whatever the order of calls, messages come out as they went in, and two
// drains with complete between them leave none.
TEST(Inbox, RandomCalls) {
  std::mt19937 random(8);
  constexpr unsigned kCount = 20'000;
  Inbox inbox;
  Messages messages(kCount);
  unsigned pushed = 0;
  uint64_t next = 0;
  const auto take = [&](size_t budget) {
    for (const uint64_t number : drain(inbox, budget).numbers) ASSERT_EQ(number, next++);
  };
  while (pushed < kCount) {
    switch (random() % 5) {
      case 0:
      case 1: {
        const unsigned last = std::min(kCount - 1, pushed + static_cast<unsigned>(random() % 6));
        inbox.push(messages.chain(pushed, last));
        pushed = last + 1;
        break;
      }
      case 2:
        ASSERT_NO_FATAL_FAILURE(take(random() % 8));
        break;
      case 3:
        inbox.complete();
        break;
      default:
        ASSERT_NO_FATAL_FAILURE(take(SIZE_MAX));
        inbox.complete();
        ASSERT_NO_FATAL_FAILURE(take(SIZE_MAX));
        ASSERT_EQ(next, pushed);
        ASSERT_FALSE(inbox.maybe_pending());
        break;
    }
  }
}

TEST(InboxRepair, WholeQueueStaysWhole) {
  Inbox inbox;
  Messages messages(10);
  repair(inbox);
  EXPECT_FALSE(inbox.maybe_pending());
  inbox.push(messages.chain(0, 4));
  repair(inbox);
  inbox.push(messages.chain(5, 9));
  EXPECT_EQ(drain(inbox).numbers, numbers(0, 8));
  inbox.complete();
  repair(inbox);
  EXPECT_EQ(drain(inbox).numbers, numbers(9, 9));
}

TEST(InboxRepair, EndsAtTheCut) {
  Inbox inbox;
  Messages messages(10);
  inbox.push(messages.chain(0, 2));
  inbox.push(messages.chain(3, 4));
  messages.cut_after(2);
  EXPECT_EQ(drain(inbox).numbers, numbers(0, 1));
  repair(inbox);
  inbox.push(messages.chain(5, 9));
  EXPECT_EQ(drain(inbox).numbers, (std::vector<uint64_t>{2, 5, 6, 7, 8}));
  inbox.complete();
  EXPECT_EQ(drain(inbox).numbers, numbers(9, 9));
}

// The stub lay behind the cut: it is out of the queue, and complete may queue it again.
TEST(InboxRepair, StubBehindTheCut) {
  Inbox inbox;
  Messages messages(4);
  inbox.push(messages.chain(0, 1));
  drain(inbox);
  inbox.complete();
  inbox.push(messages.chain(2, 2));
  messages.cut_after(1);
  repair(inbox);
  inbox.complete();
  EXPECT_EQ(drain(inbox).numbers, numbers(1, 1));
  EXPECT_FALSE(inbox.maybe_pending());
  inbox.push(messages.chain(3, 3));
  EXPECT_EQ(drain(inbox).numbers, numbers(1, 0));
  inbox.complete();
  EXPECT_EQ(drain(inbox).numbers, numbers(3, 3));
  EXPECT_FALSE(inbox.maybe_pending());
}

// The stub lies before the cut: it stays in the queue, and must not be queued a second time.
TEST(InboxRepair, StubBeforeTheCut) {
  Inbox inbox;
  Messages messages(6);
  inbox.push(messages.chain(0, 1));
  drain(inbox);
  inbox.complete();
  inbox.push(messages.chain(2, 3));
  inbox.push(messages.chain(4, 4));
  messages.cut_after(3);
  repair(inbox);
  inbox.complete();
  inbox.push(messages.chain(5, 5));
  EXPECT_EQ(drain(inbox).numbers, numbers(1, 3));
  inbox.complete();
  EXPECT_EQ(drain(inbox).numbers, numbers(5, 5));
  EXPECT_FALSE(inbox.maybe_pending());
}

// What a program may write to a freed object: nothing, numbers, a pointer to the object itself or
// to another, text, a link or an end mark that another message had.
std::vector<uint64_t> damages(const Message* itself, const Message* other) {
  return {0,
          1,
          ~uint64_t{0},
          number(itself),
          number(other),
          end_mark(itself) - 1,
          end_link(other, Messages::tag_of(0)),
          0x3ff0'0000'0000'0000,
          0x6c6c'6177'7964'6162};
}

TEST(InboxCut, IsSeenWhateverWasWritten) {
  Messages messages(4);
  for (const uint64_t damage : damages(messages.at(0), messages.at(3))) {
    Inbox inbox;
    inbox.push(messages.chain(0, 2));
    messages.overwrite(0, damage);
    EXPECT_EQ(drain(inbox), (Drained{{}, false, 1})) << damage;
  }
}

TEST(InboxCut, GoesOnBehindIt) {
  Inbox inbox;
  Messages messages(10);
  inbox.push(messages.chain(0, 4));
  messages.overwrite(2, 0);
  EXPECT_EQ(drain(inbox), (Drained{{0, 1}, false, 1}));
  EXPECT_FALSE(inbox.maybe_pending());
  inbox.push(messages.chain(5, 9));
  EXPECT_EQ(drain(inbox), (Drained{numbers(5, 8), false, 0}));
  inbox.complete();
  EXPECT_EQ(drain(inbox), (Drained{numbers(9, 9), false, 0}));
  EXPECT_FALSE(inbox.maybe_pending());
}

// The last message: nothing is behind it, and the next producer will store a link there.
TEST(InboxCut, AtTheBack) {
  Inbox inbox;
  Messages messages(3);
  inbox.push(messages.chain(0, 1));
  messages.overwrite(1, 0);
  EXPECT_EQ(drain(inbox), (Drained{{0}, false, 1}));
  inbox.push(messages.chain(2, 2));
  EXPECT_EQ(drain(inbox), (Drained{{}, false, 0}));
  inbox.complete();
  EXPECT_EQ(drain(inbox), (Drained{{2}, false, 0}));
  EXPECT_FALSE(inbox.maybe_pending());
}

// The stub is behind the cut already: what follows it is not lost, and it is not queued twice.
TEST(InboxCut, BeforeTheQueuedStub) {
  Inbox inbox;
  Messages messages(8);
  inbox.push(messages.chain(0, 2));
  EXPECT_EQ(drain(inbox, 1), (Drained{{0}, true, 0}));
  inbox.complete();
  inbox.push(messages.chain(3, 5));
  messages.overwrite(1, 0);
  EXPECT_EQ(drain(inbox), (Drained{numbers(3, 4), false, 1}));
  inbox.complete();
  inbox.push(messages.chain(6, 7));
  EXPECT_EQ(drain(inbox), (Drained{numbers(5, 6), false, 0}));
  inbox.complete();
  EXPECT_EQ(drain(inbox), (Drained{numbers(7, 7), false, 0}));
}

TEST(InboxCut, RepairLeavesItToTheDrain) {
  Inbox inbox;
  Messages messages(6);
  inbox.push(messages.chain(0, 3));
  messages.overwrite(1, number(messages.at(0)));  // round and round
  repair(inbox);
  inbox.push(messages.chain(4, 4));
  EXPECT_EQ(drain(inbox), (Drained{{0}, false, 1}));
  inbox.push(messages.chain(5, 5));
  EXPECT_EQ(drain(inbox), (Drained{{}, false, 0}));
  inbox.complete();
  EXPECT_EQ(drain(inbox), (Drained{{5}, false, 0}));
}

// A window of fake heaps: each id has an inbox in the directory and granules whose entries name it.
class RoutingTest : public testing::Test {
 protected:
  static constexpr size_t kMessageBytes = 64;

  void SetUp() override { ASSERT_TRUE(span::initialise()); }
  void TearDown() override {
    for (const HeapId id : ids_) directory[id].store(nullptr);
    if (base_ != 0) span::release(base_, ids_.size(), true);
  }

  void make_heaps(std::vector<HeapId> ids) {
    ids_ = std::move(ids);
    base_ = span::acquire(ids_.size(), kGranule).base;
    ASSERT_NE(base_, 0u);
    inboxes_ = std::make_unique<Inbox[]>(ids_.size());
    used_.assign(ids_.size(), 0);
    for (size_t i = 0; i < ids_.size(); ++i) {
      pagemap.fill(base_ + i * kGranule, 1, Entry(ids_[i], bin_offset(class_of(kMessageBytes)), 1));
      directory[ids_[i]].store(&inboxes_[i]);
    }
  }

  // A new message whose carrier lies with the heap at `place`. Words: hops, number.
  Message* message_for(size_t place) {
    const uintptr_t at = base_ + place * kGranule + used_[place]++ * kMessageBytes;
    auto* message = new (reinterpret_cast<void*>(at)) Message{};
    write_end(message, Messages::tag_of(sent_));
    message->words()[0] = 0;
    message->words()[1] = sent_++;
    arrived_.push_back(0);
    return message;
  }

  // Drains one heap as the real one does, and counts.
  void drain(size_t place, size_t budget) {
    const HeapId self = ids_[place];
    Forwarder forwarder(self);
    inboxes_[place].drain(
        budget, [](const Message*, uint64_t) { return true; },
        [&](Message* message, Tag tag) -> size_t {
          const uint64_t hops = ++message->words()[0];
          EXPECT_LE(hops, kMaxHops);
          EXPECT_EQ(tag, Messages::tag_of(message->words()[1]));
          if (destination(message) != self) {
            write_end(message, tag);
            forwarder.add(destination(message), message);
            ++forwards_;
          } else {
            EXPECT_EQ(arrived_[message->words()[1]]++, 0) << "a message came twice";
            ++arrivals_;
          }
          return 1;
        });
    forwarder.post();
    inboxes_[place].complete();
  }

  void drain_until_quiet() {
    // Each hop takes at most a round of two drains, in whatever order the heaps come.
    for (unsigned round = 0; round < 2 * kMaxHops + 1; ++round) {
      for (size_t place = 0; place < ids_.size(); ++place) drain(place, SIZE_MAX);
    }
  }

  void expect_all_arrived() {
    EXPECT_EQ(arrivals_, sent_);
    for (size_t place = 0; place < ids_.size(); ++place) {
      EXPECT_FALSE(inboxes_[place].maybe_pending());
    }
  }

  // A few senders that post now and then, while the heaps drain.
  void exchange(unsigned messages) {
    std::mt19937 random(9);
    auto outboxes = std::make_unique<Outbox[]>(4);
    for (unsigned i = 0; i < messages; ++i) {
      Outbox& outbox = outboxes[random() % 4];
      const size_t place = random() % ids_.size();
      outbox.add(ids_[place], message_for(place));
      if (outbox.add_bytes(kMessageBytes, 200 * kMessageBytes)) {
        EXPECT_LE(outbox.post(), kBuckets);
        EXPECT_TRUE(outbox.empty());
      }
      if (random() % 4 == 0) drain(random() % ids_.size(), random() % 16);
    }
    for (unsigned i = 0; i < 4; ++i) outboxes[i].post();
    drain_until_quiet();
    expect_all_arrived();
    EXPECT_GT(forwards_, 0u);
  }

  static std::vector<HeapId> first_ids(unsigned count) {
    std::vector<HeapId> ids;
    for (unsigned id = 1; id <= count; ++id) ids.push_back(static_cast<HeapId>(id));
    return ids;
  }

  std::vector<HeapId> ids_;
  uintptr_t base_ = 0;
  std::unique_ptr<Inbox[]> inboxes_;
  std::vector<size_t> used_;
  std::vector<char> arrived_;
  size_t sent_ = 0;
  size_t arrivals_ = 0;
  size_t forwards_ = 0;
};

TEST_F(RoutingTest, AThousandHeaps) {
  ASSERT_NO_FATAL_FAILURE(make_heaps(first_ids(1000)));
  exchange(50'000);
}

TEST_F(RoutingTest, FiveThousandHeaps) {
  ASSERT_NO_FATAL_FAILURE(make_heaps(first_ids(5000)));
  exchange(60'000);
}

// Ids over all of their 16 bits, the highest there is among them: all three digits count.
TEST_F(RoutingTest, IdsFarApart) {
  std::mt19937 random(10);
  std::map<HeapId, bool> chosen = {{HeapId{1}, true}, {HeapId{kMaxHeaps - 1}, true}};
  while (chosen.size() < 2000) chosen[static_cast<HeapId>(1 + random() % (kMaxHeaps - 1))] = true;
  std::vector<HeapId> ids;
  for (const auto& [id, unused] : chosen) ids.push_back(id);
  ASSERT_NO_FATAL_FAILURE(make_heaps(ids));
  exchange(40'000);
}

// One bucket for all, and the whole of it to the wrong heap first.
TEST_F(RoutingTest, IdsThatShareABucket) {
  std::vector<HeapId> ids;
  for (unsigned id = 5; id < kMaxHeaps; id += kBuckets) ids.push_back(static_cast<HeapId>(id));
  ASSERT_NO_FATAL_FAILURE(make_heaps(ids));
  auto outbox = std::make_unique<Outbox>();
  for (size_t place = 0; place < ids.size(); ++place) {
    outbox->add(ids[place], message_for(place));
  }
  EXPECT_EQ(outbox->post(), 1u);
  drain_until_quiet();
  expect_all_arrived();
}

TEST_F(RoutingTest, FewHeapsNeedNoForwarding) {
  ASSERT_NO_FATAL_FAILURE(make_heaps(first_ids(kBuckets)));
  auto outbox = std::make_unique<Outbox>();
  for (unsigned i = 0; i < 1000; ++i) outbox->add(ids_[i % kBuckets], message_for(i % kBuckets));
  EXPECT_EQ(outbox->post(), kBuckets);
  drain_until_quiet();
  expect_all_arrived();
  EXPECT_EQ(forwards_, 0u);
}

TEST(Outbox, BytesReachTheLimit) {
  Outbox outbox{};
  EXPECT_TRUE(outbox.empty());
  EXPECT_FALSE(outbox.add_bytes(50, 100));
  EXPECT_FALSE(outbox.add_bytes(49, 100));
  EXPECT_TRUE(outbox.add_bytes(1, 100));
  EXPECT_EQ(outbox.post(), 0u);
  EXPECT_FALSE(outbox.add_bytes(99, 100)) << "a post starts anew";
}

TEST_F(RoutingTest, RecordsShareACarrierUntilItIsFullOrPosted) {
  ASSERT_NO_FATAL_FAILURE(make_heaps({1, 2, 65}));
  auto outbox = std::make_unique<Outbox>();
  EXPECT_EQ(outbox->reserve(1, 1), nullptr) << "nothing is open";
  Message* open = message_for(0);
  outbox->add_open(1, open, 1, record_capacity(kMessageBytes), begin_seal(open));
  EXPECT_EQ(tag_in(link_of(open)), records_tag(1));
  EXPECT_EQ(outbox->reserve(2, 1), nullptr);
  EXPECT_EQ(outbox->reserve(65, 1), nullptr) << "another heap of the same bucket";
  EXPECT_EQ(outbox->reserve(1, 3), nullptr) << "two fit";
  EXPECT_EQ(outbox->reserve(1, 1), open->records() + 1);
  // A message behind it: the link keeps both its pointer and the new count.
  Message* next = message_for(2);
  outbox->add(65, next);
  EXPECT_EQ(outbox->reserve(1, 1), open->records() + 2);
  EXPECT_EQ(tag_in(link_of(open)), records_tag(3));
  EXPECT_EQ(next_in(link_of(open)), next);
  EXPECT_EQ(outbox->reserve(1, 1), nullptr) << "it is full";
  outbox->post();
  open = message_for(0);
  outbox->add_open(1, open, 1, 3, begin_seal(open));
  outbox->post();
  EXPECT_EQ(outbox->reserve(1, 1), nullptr) << "it is on its way";
}

}  // namespace
}  // namespace loft
