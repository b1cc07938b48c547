// Keyed messages: what a write after free can do to them, and that they arrive otherwise. All other
// tests of messages run once more with a key, too (test/settings.cc).
#include "remote/key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "heap/registry.h"
#include "remote/outbox.h"
#include "remote/pack.h"
#include "space/span.h"
#include "unit/support.h"

namespace loft {
namespace {

using test::index_of;
using test::link_of;
using test::number;
using test::slab_of;

class Keyed : public testing::Test {
 protected:
  void SetUp() override {
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    ASSERT_TRUE(span::initialise());
    registry::key_messages();
    registry::adopt(heap_);
    held_at_start_ = heap_->counters().allocated_bytes();
  }
  void TearDown() override {
    heap_->check();
    registry::abandon(heap_);
  }

  std::vector<void*> take(SizeClass c, unsigned wanted) {
    const os::Guard guard(heap_->lock());
    std::vector<void*> slots(wanted);
    unsigned taken = 0;
    while (taken < wanted) {
      unsigned more = heap_->refill(c, &slots[wanted - 1 - taken], wanted - taken);
      if (more == 0) {
        more = heap_->refill_from_new(c, &slots[wanted - 1 - taken], wanted - taken);
      }
      if (more == 0) break;
      taken += more;
    }
    EXPECT_EQ(taken, wanted);
    std::reverse(slots.begin(), slots.end());
    return slots;
  }

  static uint64_t* words_of(const std::vector<void*>& objects) {
    static uint64_t words[kMaxWords];
    std::fill_n(words, kMaxWords, 0);
    for (void* p : objects) words[index_of(p) / 64] |= uint64_t{1} << index_of(p) % 64;
    return words;
  }

  // The objects of one slab, as messages in the bitmap form.
  static std::vector<Message*> packed(const std::vector<void*>& objects) {
    Slab* slab = slab_of(objects.front());
    uint64_t* const words = words_of(objects);
    std::vector<Message*> messages;
    pack(slab->base, slab->shape(), words, used_words(slab->shape(), words),
         [&](Message* m) { messages.push_back(m); });
    return messages;
  }

  // The same as records of an open carrier, the first object, with room for more.
  static Message* open(Outbox& outbox, const std::vector<void*>& objects) {
    Slab* slab = slab_of(objects.front());
    auto* message = static_cast<Message*>(objects.front());
    uint64_t* const words = words_of(objects);
    const uint64_t used = used_words(slab->shape(), words);
    uint64_t seal = begin_seal(message);
    write_records(metadata::index_of(slab), words, used, message->records(), &seal);
    outbox.add_open(slab->owner, message, count_bits(used), record_capacity(slab->shape().size),
                    seal);
    return message;
  }
  static void join(Outbox& outbox, const std::vector<void*>& objects) {
    Slab* slab = slab_of(objects.front());
    uint64_t* const words = words_of(objects);
    const uint64_t used = used_words(slab->shape(), words);
    Record* const space = outbox.reserve(slab->owner, count_bits(used));
    ASSERT_NE(space, nullptr);
    write_records(metadata::index_of(slab), words, used, space, outbox.seal_of(slab->owner));
  }

  static void send(const std::vector<Message*>& messages) {
    Chain chain{};
    for (Message* message : messages) chain.append(message);
    deliver(chain);
  }
  void drain_all() {
    const os::Guard guard(heap_->lock());
    heap_->drain_all();
  }
  void receive(const std::vector<Message*>& messages) {
    send(messages);
    drain_all();
  }
  size_t held_here() const { return heap_->counters().allocated_bytes() - held_at_start_; }

  Heap* heap_ = nullptr;
  size_t held_at_start_ = 0;
};
using KeyedDeathTest = Keyed;

TEST_F(Keyed, TheCipherIsOfItsTweak) {
  std::mt19937_64 random(1);
  std::set<uint64_t> seen;
  unsigned flipped = 0;
  constexpr unsigned kRounds = 20'000;
  for (unsigned i = 0; i < kRounds; ++i) {
    const uint64_t block = random();
    const uint64_t tweak = random();
    const uint64_t hidden = messages::encipher(block, tweak);
    ASSERT_EQ(messages::decipher(hidden, tweak), block);
    ASSERT_NE(messages::decipher(hidden, tweak ^ 1), block);
    seen.insert(messages::encipher(i, 7));
    flipped += count_bits(hidden ^ messages::encipher(block ^ uint64_t{1} << i % 64, tweak));
    flipped += count_bits(hidden ^ messages::encipher(block, tweak ^ uint64_t{1} << i % 64));
  }
  EXPECT_EQ(seen.size(), kRounds);
  // Half of the 64 bits, each time.
  EXPECT_NEAR(static_cast<double>(flipped) / (2 * kRounds), 32.0, 0.5);
}

TEST_F(Keyed, ASealIsOfEachBit) {
  const std::vector<uint64_t> payload = {1, 0, 0, uint64_t{1} << 63, 5};
  const auto seal = [](const std::vector<uint64_t>& words, uint16_t tag, uint64_t binding) {
    uint64_t state = binding;
    for (const uint64_t word : words) state = messages::add_word(state, word);
    return messages::finish_seal(state, tag, binding);
  };
  std::set<uint64_t> seen = {seal(payload, 9, 11), seal(payload, 8, 11), seal(payload, 9, 10)};
  for (size_t bit = 0; bit < 64 * payload.size(); ++bit) {
    std::vector<uint64_t> other = payload;
    other[bit / 64] ^= uint64_t{1} << bit % 64;
    seen.insert(seal(other, 9, 11));
  }
  EXPECT_EQ(seen.size(), 3 + 64 * payload.size());
}

TEST_F(Keyed, AllClassesComeHome) {
  std::mt19937 random(2);
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    for (const unsigned percent : {2u, 50u, 98u, 100u}) {
      const std::vector<void*> objects = take(c, geometry(c).objects);
      std::vector<std::vector<void*>> batches(4);
      for (void* p : objects) {
        const bool first_slab = slab_of(p) == slab_of(objects[0]);
        batches[(random() % 100 < percent ? 0 : 1) + (first_slab ? 0 : 2)].push_back(p);
      }
      for (const std::vector<void*>& batch : batches) {
        if (!batch.empty()) receive(packed(batch));
      }
      ASSERT_EQ(held_here(), 0u) << class_size(c);
    }
  }
}

TEST_F(Keyed, SixteenBytesStandForThemselvesOrCarryInPairs) {
  const SizeClass c = class_of(16);
  const std::vector<void*> objects = take(c, 64 * 8);
  const auto count = [&](auto choose) {
    std::vector<void*> chosen;
    for (void* p : objects) {
      if (choose(index_of(p))) chosen.push_back(p);
    }
    const std::vector<Message*> all = packed(chosen);
    unsigned alone = 0;
    for (Message* message : all) alone += tag_in(link_of(message)) == kAloneTag;
    receive(all);
    return std::pair<size_t, unsigned>(all.size(), alone);
  };
  // Every eighth; pairs among them in every second word; and what is left, all side by side.
  const auto lone = count([](unsigned i) { return i % 8 == 0 && i / 64 % 2 == 0; });
  EXPECT_EQ(lone.first, lone.second);
  const auto pairs = count([](unsigned i) { return i % 8 < 2 && i / 64 % 2 == 1; });
  EXPECT_EQ(pairs.second, 0u);
  EXPECT_LE(pairs.first, 5u);
  const auto left = count([](unsigned i) { return i / 64 % 2 == 0 ? i % 8 != 0 : i % 8 >= 2; });
  EXPECT_EQ(left.second, 0u);
  EXPECT_EQ(held_here(), 0u);
}

TEST_F(Keyed, NothingOfALinkIsShown) {
  const std::vector<void*> objects = take(class_of(64), 40);
  std::vector<Message*> all;
  for (unsigned i = 0; i < 40; i += 2) all.push_back(packed({objects[i]}).front());
  Chain chain{};
  for (Message* message : all) chain.append(message);
  std::set<uint64_t> upper;
  for (Message* message : all) {
    const uint64_t word = message->link.load();
    upper.insert(word >> 48);
    for (const void* p : objects) {
      EXPECT_NE(word & kLinkPointerMask, number(p));
      EXPECT_NE(word & kLinkPointerMask, number(p) | 1);
    }
  }
  EXPECT_GT(upper.size(), all.size() / 2) << "nor that all have one tag";
  deliver(chain);
  std::vector<void*> rest;
  for (unsigned i = 1; i < 40; i += 2) rest.push_back(objects[i]);
  receive(packed(rest));
  EXPECT_EQ(held_here(), 0u);
}

TEST_F(Keyed, AnObjectIsBoundToItsUseAndItsSlab) {
  const SizeClass c = class_of(2048);
  const std::vector<void*> objects = take(c, 3);
  const uint64_t at_first = messages::binding_of(number(objects[0]));
  EXPECT_NE(messages::binding_of(number(objects[1])), at_first);
  receive(packed({objects[0]}));
  const uint64_t then = messages::binding_of(number(objects[0]));
  EXPECT_NE(then, at_first);
  // What others bring home leaves it as it is.
  receive(packed({objects[1]}));
  receive(packed({objects[2]}));
  EXPECT_EQ(messages::binding_of(number(objects[0])), then);
  EXPECT_EQ(held_here(), 0u);
}

TEST_F(Keyed, CountsGoWithTheirSlab) {
  const SizeClass c = class_of(1024);
  Slab* slab = test::new_slab(c, heap_->id());
  ASSERT_NE(slab, nullptr);
  slab::destroy_all(&slab, 1);  // its span has metadata that stays
  const size_t before = metadata::used_bytes();
  slab = test::new_slab(c, heap_->id());
  ASSERT_NE(slab, nullptr);
  const size_t with_slab = metadata::used_bytes();
  slab->end_use(3);
  EXPECT_GT(metadata::used_bytes(), with_slab);
  EXPECT_EQ(slab->use_of(3), slab->use_of(4) + 1);
  slab::destroy_all(&slab, 1);
  EXPECT_EQ(metadata::used_bytes(), before);
}

// Every byte of a message, whichever bit of it: link, seal, payload.
TEST_F(KeyedDeathTest, NoByteOfAMessageMayChange) {
  const std::vector<void*> objects = take(class_of(96), 3);
  Message* message = packed(objects).front();
  const size_t end = messages::head() + payload_words(tag_in(link_of(message))) * sizeof(uint64_t);
  for (size_t at = 0; at < end; ++at) {
    EXPECT_DEATH((reinterpret_cast<unsigned char*>(message)[at] ^= 1u << at % 8, send({message}),
                  drain_all()),
                 "write after free: ")
        << at;
    if (HasFailure()) break;
  }
  receive({message});
}

// A program's thread writes while the owner reads: what is believed is what was sealed.
TEST_F(Keyed, ACopyIsWhatWasSealed) {
  const std::vector<void*> objects = take(class_of(256), 3);
  Message* message = packed(objects).front();
  const Tag tag = tag_in(link_of(message));
  const uint64_t sent = message->words()[0];
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    auto* const word = message->words();
    for (uint64_t i = 0; !stop; ++i) {
      __atomic_store_n(word, i % 2 == 0 ? ~uint64_t{0} : sent, __ATOMIC_RELAXED);
    }
    __atomic_store_n(word, sent, __ATOMIC_RELAXED);
  });
  for (int i = 0; i < 100'000; ++i) {
    uint64_t copy[messages::kMostPayload] = {};
    const bool opened = messages::copy_sealed(message, tag, copy, payload_words(tag));
    ASSERT_TRUE(!opened || copy[0] == sent);
  }
  stop = true;
  writer.join();
  receive({message});
  EXPECT_EQ(held_here(), 0u);
}

TEST_F(KeyedDeathTest, AForgedMessageIsNamed) {
  const std::vector<void*> objects = take(class_of(48), 2);
  Message* message = packed(objects).front();
  EXPECT_DEATH((message->words()[0] |= 4, receive({message})),
               "write after free: forged or stale message in 0x[0-9a-f]+: slab 0x[0-9a-f]+, size "
               "class 48 bytes");
  receive({message});
}

TEST_F(KeyedDeathTest, LinksThatAreMadeUp) {
  std::vector<void*> objects = take(class_of(64), 3);
  Message* first = packed({objects[0]}).front();
  Message* second = packed({objects[1]}).front();
  auto* made_up = static_cast<Message*>(objects[2]);
  send({first, second});
  const uint64_t of_first = first->link.load();
  const uint64_t of_second = second->link.load();
  // Without the secrets: as they are without a key; from another message; a loop; nothing.
  for (const uint64_t word :
       {end_link(first, bitmap_tag(0, 1)), with_next(tag_bits(bitmap_tag(0, 1)), made_up),
        with_next(tag_bits(bitmap_tag(0, 1)), first), of_second, uint64_t{0}, number(made_up)}) {
    EXPECT_DEATH((first->link.store(word), drain_all()), "write after free: ") << word;
  }
  // Of the last one: the next producer sees it, too.
  EXPECT_DEATH((second->link.store(of_first), send(packed({objects[2]}))),
               "write after free: the link is not the one written to the message of returned "
               "objects in 0x");
  drain_all();
  receive(packed({objects[2]}));
  EXPECT_EQ(held_here(), 0u);
}

TEST_F(KeyedDeathTest, TwoMessagesAreNotEachOthers) {
  const SizeClass c = class_of(64);
  const std::vector<void*> objects = take(c, 2);
  Message* first = packed({objects[0]}).front();
  Message* second = packed({objects[1]}).front();
  send({first, second});
  const auto swap_bytes = [&](size_t from, size_t bytes) {
    char held[64];
    memcpy(held, reinterpret_cast<char*>(first) + from, bytes);
    memcpy(reinterpret_cast<char*>(first) + from, reinterpret_cast<char*>(second) + from, bytes);
    memcpy(reinterpret_cast<char*>(second) + from, held, bytes);
  };
  EXPECT_DEATH((swap_bytes(0, 64), drain_all()), "write after free: ");
  EXPECT_DEATH((swap_bytes(8, 56), drain_all()), "write after free: forged or stale message");
  EXPECT_DEATH((swap_bytes(8, 8), drain_all()), "write after free: forged or stale message");
  drain_all();
}

// What the very object held when it was freed an earlier time.
TEST_F(KeyedDeathTest, NoMessageComesTwice) {
  std::vector<void*> objects = take(class_of(128), 2);
  Message* const message = packed(objects).front();
  char held[128];
  memcpy(held, message, sizeof(held));
  receive({message});
  for (int round = 0; round < 3; ++round) {
    ASSERT_THAT(take(class_of(128), 2), testing::UnorderedElementsAreArray(objects));
    // One is freed alone; what it held the first time brings home both.
    ASSERT_EQ(packed({message}).front(), message);
    EXPECT_DEATH((memcpy(static_cast<void*>(message), held, sizeof(held)), receive({message})),
                 "write after free: ");
    // The same behind a link that is right.
    EXPECT_DEATH((memcpy(reinterpret_cast<char*>(message) + 8, held + 8, sizeof(held) - 8),
                  receive({message})),
                 "write after free: forged or stale message");
    receive({message});
    receive(packed({objects[0] == message ? objects[1] : objects[0]}));
  }
  EXPECT_EQ(held_here(), 0u);
}

TEST_F(KeyedDeathTest, NorInAnotherSlabAtTheSamePlace) {
  const SizeClass c = class_of(1024);
  Slab* slab = test::new_slab(c, heap_->id());
  ASSERT_NE(slab, nullptr);
  const uint64_t before = messages::binding_of(slab->base);
  EXPECT_EQ(before, messages::binding_of(slab->base));
  slab = slab::recut(slab, c);
  ASSERT_NE(slab, nullptr);
  EXPECT_NE(messages::binding_of(slab->base), before);
  slab::destroy_all(&slab, 1);
}

TEST_F(Keyed, RecordsComeHome) {
  auto outbox = std::make_unique<Outbox>();
  const std::vector<void*> large = take(class_of(256), 4);
  const std::vector<void*> small = take(class_of(16), 130);
  const std::vector<void*> middle = take(class_of(96), 5);
  open(*outbox, large);
  join(*outbox, small);
  outbox->add(heap_->id(), packed(take(class_of(48), 1)).front());
  join(*outbox, middle);
  outbox->post();
  drain_all();
  EXPECT_EQ(held_here(), 0u);
}

TEST_F(Keyed, AFullCarrierIsSealedWhenAnotherOpens) {
  auto outbox = std::make_unique<Outbox>();
  const SizeClass c = class_of(48);  // two records
  for (int i = 0; i < 4; ++i) {
    open(*outbox, take(c, 1));
    join(*outbox, take(class_of(80), 3));
  }
  outbox->post();
  drain_all();
  EXPECT_EQ(held_here(), 0u);
}

// An open carrier is in reach of a write after free before it has a seal.
TEST_F(KeyedDeathTest, WhatAnOpenCarrierHeldMayNotChange) {
  auto outbox = std::make_unique<Outbox>();
  const std::vector<void*> objects = take(class_of(256), 2);
  const std::vector<void*> others = take(class_of(96), 2);
  Message* message = open(*outbox, {objects[0]});
  const auto finish = [&] {
    join(*outbox, others);
    outbox->post();
    drain_all();
  };
  EXPECT_DEATH((message->records()[0].freed |= 2, finish()),
               "write after free: forged or stale message");
  EXPECT_DEATH((message->link.store(message->link.load() + 1), finish()), "write after free: ");
  finish();
  receive(packed({objects[1]}));
  EXPECT_EQ(held_here(), 0u);
}

TEST_F(KeyedDeathTest, SixteenBytesAloneAndPaired) {
  const SizeClass c = class_of(16);
  std::vector<void*> objects = take(c, 8);
  std::sort(objects.begin(), objects.end());
  Message* alone = packed({objects[0]}).front();
  Message* other = packed({objects[2]}).front();
  ASSERT_EQ(tag_in(link_of(alone)), kAloneTag);
  EXPECT_DEATH((reinterpret_cast<uint64_t*>(alone)[1] ^= 1, receive({alone})),
               "write after free: forged or stale message");
  EXPECT_DEATH((memcpy(static_cast<void*>(alone), other, 16), receive({alone})),
               "write after free: ");
  receive({alone, other});
  Message* pair = packed({objects[4], objects[5], objects[7]}).front();
  EXPECT_EQ(static_cast<void*>(pair), objects[4]);
  EXPECT_DEATH((pair->words()[0] |= pair->words()[0] << 2, receive({pair})),
               "write after free: forged or stale message");
  receive({pair});
  std::vector<void*> rest = {objects[1], objects[3], objects[6]};
  receive(packed(rest));
  EXPECT_EQ(held_here(), 0u);
}

TEST_F(Keyed, AMovedSlabsMessagesArriveAllTheSame) {
  const SizeClass c = class_of(1024);
  const unsigned count = geometry(c).objects;
  std::vector<void*> full = take(c, count);
  std::vector<void*> sparse = take(c, count);
  Heap* mine = nullptr;
  registry::adopt(mine);
  // A quarter stays in use. Of these some are on their way, and some go after the slab has moved.
  receive(packed({sparse.begin() + count / 4, sparse.end()}));
  sparse.resize(count / 4);
  const auto middle = sparse.begin() + count / 8;
  auto outbox = std::make_unique<Outbox>();
  open(*outbox, {full[0]});
  join(*outbox, {sparse[0], sparse[1]});
  send(packed({sparse.begin() + 2, middle}));
  {
    const os::Guard guard(mine->lock());
    const os::Guard other(heap_->lock());
    ASSERT_TRUE(mine->take_over(*heap_, c, 0, false));
  }
  outbox->post();
  send(packed({middle, sparse.end()}));
  receive(packed({full.begin() + 1, full.end()}));
  for (int round = 0; round < 2; ++round) {
    for (Heap* heap : {heap_, mine}) {
      const os::Guard guard(heap->lock());
      heap->drain_all();
      heap->check();
    }
  }
  EXPECT_EQ(held_here(), 0u);
  registry::abandon(mine);
}

// hardened=full: what a message was written into reads as zero, its seal as well.
TEST_F(Keyed, CarriersReadAsZeroWhereFreeObjectsDo) {
  for (const size_t size : {16, 48, 256}) {
    const std::vector<void*> objects = take(class_of(size), 2);
    for (void* p : objects) memset(p, 0, size);
    const std::vector<Message*> sent = packed({objects[0]});
    auto outbox = std::make_unique<Outbox>();
    if (size == 256) {
      open(*outbox, {objects[1]});
    } else {
      outbox->add(heap_->id(), packed({objects[1]}).front());
    }
    outbox->post();
    free_reads_as_zero = true;
    receive(sent);
    free_reads_as_zero = false;
    for (const void* p : objects) EXPECT_TRUE(test::reads_zero(p, size)) << size;
  }
}

TEST_F(KeyedDeathTest, AMediumObject) {
  void* p = nullptr;
  {
    const os::Guard guard(heap_->lock());
    bool zero = false;
    p = heap_->take_medium(100'000, false, &zero);
  }
  ASSERT_NE(p, nullptr);
  MediumRun* const run = medium::run_at(pagemap.of(p));
  run->word_at(p).keep();
  Message* message = write_alone(p);
  EXPECT_DEATH((reinterpret_cast<uint64_t*>(message)[1] ^= 1, receive({message})),
               "write after free: forged or stale message in 0x");
  EXPECT_DEATH((message->link.store(end_link(message, kAloneTag)), send({message}), drain_all()),
               "write after free: ");
  receive({message});
  EXPECT_FALSE(run->word_at(p).in_use());
}

// hardened=full: a place keeps its tag on its way, whatever it carries.
TEST_F(Keyed, WhatIsBehindAnObjectStays) {
  const uint16_t around = messages::key.around;
  messages::key.around = messages::kKeyedHead + 8;
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    const std::vector<void*> objects = take(c, 130);
    const size_t size = class_size(c);
    const auto tag_of = [&](void* p) { return static_cast<uint64_t*>(p)[size / 8 - 1]; };
    for (void* p : objects) memset(p, 0x5A, size);
    const Slab* slab = slab_of(objects[0]);
    std::vector<void*> of_one;
    std::vector<void*> others;
    for (void* p : objects) (slab_of(p) == slab ? of_one : others).push_back(p);
    const std::vector<Message*> sent = packed(of_one);
    // Those between the objects of a run are freed, as they are; the one behind it is not.
    unsigned gone = 0;
    for (void* p : of_one) gone += tag_of(p) != 0x5A5A5A5A5A5A5A5A;
    EXPECT_LE(gone, size >= 64 ? 0u : of_one.size() / (size > 16 ? 2 : 1)) << size;
    EXPECT_LE(record_capacity(size) * sizeof(Record) + messages::kKeyedHead + 8,
              most<size_t>(size, messages::kKeyedHead + 8));
    receive(sent);
    while (!others.empty()) {
      const Slab* next = slab_of(others.back());
      const auto middle =
          std::partition(others.begin(), others.end(), [&](void* p) { return slab_of(p) != next; });
      receive(packed({middle, others.end()}));
      others.erase(middle, others.end());
    }
  }
  messages::key.around = around;
  EXPECT_EQ(held_here(), 0u);
}

// Messages under way when a process forks are valid in the child, and those of both are from then
// on.
TEST_F(Keyed, AForkLeavesTheKey) {
  const std::vector<void*> objects = take(class_of(64), 3);
  send(packed({objects[0]}));
  const bool passed = test::child_passes([&] {
    send(packed({objects[1]}));
    drain_all();
    return held_here() == 64u;
  });
  EXPECT_TRUE(passed);
  receive(packed({objects[1]}));
  receive(packed({objects[2]}));
  EXPECT_EQ(held_here(), 0u);
}

}  // namespace
}  // namespace loft
