// Heaps: what they hand out and take back, directly and by message, and who owns them when.
#include "heap/heap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "control.h"
#include "heap/registry.h"
#include "remote/outbox.h"
#include "remote/pack.h"
#include "space/metadata.h"
#include "space/span.h"
#include "unit/support.h"

namespace loft {
namespace {

using test::address;
using test::index_of;
using test::number;
using test::slab_of;

Heap* adopted() {
  Heap* heap = nullptr;
  return registry::adopt(heap);
}

class HeapTest : public testing::Test {
 protected:
  void SetUp() override {
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    ASSERT_TRUE(span::initialise());
    registry::adopt(heap_);
    ASSERT_NE(heap_, nullptr);
    {
      const os::Guard guard(heap_->lock());
      heap_->purge(nullptr, Heap::Walk::kNow);
    }
    held_at_start_ = held();
  }
  void TearDown() override {
    heap_->check();
    registry::abandon(heap_);
  }

  size_t held() const { return heap_->counters().allocated_bytes(); }
  size_t held_here() const { return held() - held_at_start_; }
  unsigned long received() const { return heap_->counters().objects_received(); }

  std::vector<void*> take(SizeClass c, unsigned wanted) {
    const os::Guard guard(heap_->lock());
    std::vector<void*> slots(wanted);
    unsigned taken = heap_->refill(c, &slots[wanted - 1], wanted);
    while (taken < wanted) {
      const unsigned more = heap_->refill_from_new(c, &slots[wanted - 1 - taken], wanted - taken);
      EXPECT_NE(more, 0u);
      if (more == 0) break;
      taken += more;
    }
    std::reverse(slots.begin(), slots.end());
    return slots;
  }

  void put(const std::vector<void*>& objects) {
    const os::Guard guard(heap_->lock());
    for (void* p : objects) {
      heap_->put_word(slab_of(p), index_of(p) / 64, uint64_t{1} << index_of(p) % 64);
    }
  }

  // The objects of one slab, as messages in the bitmap form.
  static std::vector<Message*> packed(const std::vector<void*>& objects) {
    Slab* slab = slab_of(objects.front());
    uint64_t words[kMaxWords] = {};
    for (void* p : objects) words[index_of(p) / 64] |= uint64_t{1} << index_of(p) % 64;
    std::vector<Message*> messages;
    pack(slab->base, slab->shape(), words, used_words(slab->shape(), words),
         [&](Message* m) { messages.push_back(m); });
    return messages;
  }

  // One message of records: the objects of several slabs, the carrier's slab first.
  static Message* recorded(const std::vector<std::vector<void*>>& slabs) {
    auto* message = static_cast<Message*>(slabs.front().front());
    Record* to = message->records();
    uint64_t seal = begin_seal(message);
    for (const std::vector<void*>& objects : slabs) {
      Slab* slab = slab_of(objects.front());
      uint64_t words[kMaxWords] = {};
      for (void* p : objects) words[index_of(p) / 64] |= uint64_t{1} << index_of(p) % 64;
      to = write_records(metadata::index_of(slab), words, used_words(slab->shape(), words), to,
                         &seal);
    }
    const auto count = static_cast<unsigned>(to - message->records());
    EXPECT_LE(count, record_capacity(slab_of(message)->shape().size));
    if (messages::keyed()) messages::write_seal(message, records_tag(count), seal);
    write_end(message, records_tag(count));
    return message;
  }

  static void send(Message* message) { deliver({message, message}); }
  void drain_all() {
    const os::Guard guard(heap_->lock());
    heap_->drain_all();
  }
  bool drain(size_t budget) {
    const os::Guard guard(heap_->lock());
    return heap_->drain(budget);
  }

  // A message that is drained with another behind it, so that it is consumed.
  void receive(Message* message) {
    send(message);
    drain_all();
  }

  Heap* heap_ = nullptr;
  size_t held_at_start_ = 0;
};

TEST_F(HeapTest, HandsOutEachObjectOnce) {
  std::set<void*> all;
  for (const unsigned wanted : {1u, 10u, 100u, 1000u, 5000u}) {
    for (void* p : take(class_of(48), wanted)) {
      ASSERT_TRUE(all.insert(p).second);
      ASSERT_EQ(pagemap.of(p).owner(), heap_->id());
    }
  }
  EXPECT_EQ(held_here(), all.size() * 48);
  put({all.begin(), all.end()});
  EXPECT_EQ(held_here(), 0u);
}

TEST_F(HeapTest, LowestAddressFirstWithinASlab) {
  const std::vector<void*> objects = take(class_of(64), 1024);
  EXPECT_TRUE(std::is_sorted(objects.begin(), objects.end()));
  put({objects[900], objects[3], objects[500]});
  EXPECT_EQ(take(class_of(64), 3), (std::vector<void*>{objects[3], objects[500], objects[900]}));
  put(objects);
}

TEST_F(HeapTest, RefillsFromFullerSlabsFirstAndFromNearlyFullOnesLast) {
  const SizeClass c = class_of(1024);
  const unsigned objects = geometry(c).objects;
  std::vector<std::vector<void*>> slabs;
  for (int i = 0; i < 4; ++i) slabs.push_back(take(c, objects));
  // How many are free in each slab; and the order in which they are to be used.
  const unsigned free[] = {objects / 8 - 1, objects - 1, objects / 4, objects * 5 / 8};
  for (const unsigned slab : {1u, 0u, 3u, 2u}) {
    put({slabs[slab].begin(), slabs[slab].begin() + free[slab]});
  }
  for (const unsigned slab : {2u, 3u, 1u, 0u}) {
    for (void* p : take(c, free[slab])) {
      ASSERT_EQ(slab_of(p), slab_of(slabs[slab].front())) << slab;
    }
  }
  for (const std::vector<void*>& slab : slabs) put(slab);
}

TEST_F(HeapTest, SpansOfEmptySlabsServeTheNextSlabsOfAnyClass) {
  const SizeClass c = class_of(1024);
  const unsigned objects = geometry(c).objects;
  const size_t spares = heap_->counters().spare_bytes.get();
  EXPECT_EQ(spares, 0u);
  const std::vector<void*> first = take(c, 16 * objects);
  std::set<uintptr_t> bases;
  for (void* p : first) bases.insert(slab_of(p)->base);
  put(first);
  // One slab stays listed.
  EXPECT_EQ(heap_->counters().spare_bytes.get(), 15 * kGranule);
  for (const uintptr_t base : bases) {
    EXPECT_TRUE(pagemap.of(address(base)).bin() != kLarge);
  }
  const std::vector<void*> second = take(class_of(512), 15 * geometry(class_of(512)).objects);
  EXPECT_EQ(heap_->counters().spare_bytes.get(), 0u);
  for (void* p : second) EXPECT_TRUE(bases.count(slab_of(p)->base) == 1);
  put(second);
  // What nobody needs for a while goes back.
  EXPECT_NE(heap_->counters().spare_bytes.get(), 0u);
  for (int i = 0; i < 2; ++i) {
    for (unsigned tick = 0; tick < span::kDecayTicks; ++tick) span::idle_bytes();
    put(take(c, 1));
  }
  EXPECT_EQ(heap_->counters().spare_bytes.get(), 0u);
}

TEST_F(HeapTest, RestLetsGoOfEverythingThatIsFree) {
  const SizeClass c = class_of(1024);
  const unsigned objects = geometry(c).objects;
  std::vector<void*> held = take(c, 20 * objects);
  for (void* p : held) memset(p, 1, 1024);
  std::vector<void*> kept = {held[5], held[7 * objects]};
  std::vector<void*> rest;
  for (void* p : held) {
    if (p != kept[0] && p != kept[1]) rest.push_back(p);
  }
  put(rest);
  EXPECT_FALSE(heap_->is_purged());
  {
    const os::Guard guard(heap_->lock());
    heap_->purge(nullptr, Heap::Walk::kNow);
  }
  EXPECT_TRUE(heap_->is_purged());
  EXPECT_EQ(heap_->counters().spare_bytes.get(), 0u);
  EXPECT_EQ(heap_->counters().slab_bytes(), 2 * kGranule);
  for (void* p : kept) EXPECT_EQ(slab_of(p)->gone.count(), slab_of(p)->pages() - 1);
  put(kept);
  EXPECT_FALSE(heap_->is_purged());
  const os::Guard guard(heap_->lock());
  heap_->purge(nullptr, Heap::Walk::kNow);
  EXPECT_EQ(heap_->counters().slab_bytes(), 0u);
}

// The program has locked its memory, and unlocks it later: the next walk looks at all slabs.
TEST_F(HeapTest, AHoleThatWasRefusedIsTriedAgain) {
  const SizeClass c = class_of(1024);
  const unsigned objects = geometry(c).objects;
  std::vector<void*> held = take(c, 2 * objects);
  for (void* p : held) memset(p, 1, 1024);
  const Slab* const slab = slab_of(held[0]);
  const auto purge = [&] {
    const os::Guard guard(heap_->lock());
    heap_->purge(nullptr, Heap::Walk::kNow);
    heap_->check();
  };
  put({held.begin() + 1, held.begin() + objects});
  // The sanitizers' own mlock does nothing.
  void* const base = reinterpret_cast<void*>(slab->base);
  if (syscall(SYS_mlock, base, kGranule) != 0) GTEST_SKIP() << "may not lock memory";
  purge();
  EXPECT_EQ(slab->gone.count(), 0u);
  ASSERT_EQ(syscall(SYS_munlock, base, kGranule), 0);
  put({held.back()});  // of the other slab
  purge();
  EXPECT_EQ(slab->gone.count(), slab->pages() - 1);
  put({held[0]});
  put({held.begin() + objects, held.end() - 1});
}

// A walk looks at those to which something came back, which come before all others.
TEST_F(HeapTest, AWalkLeavesTheOtherSlabsSettled) {
  constexpr unsigned kSlabs = 6;
  const SizeClass c = class_of(1024);
  const unsigned objects = geometry(c).objects;
  const std::vector<void*> held = take(c, kSlabs * objects);
  const auto purge = [&] {
    const os::Guard guard(heap_->lock());
    heap_->purge(nullptr, Heap::Walk::kNow);
    heap_->check();
  };
  const auto settled = [&] {
    unsigned count = 0;
    for (unsigned slab = 0; slab < kSlabs; ++slab) {
      count += slab_of(held[slab * objects])->settled ? 1 : 0;
    }
    return count;
  };
  for (unsigned slab = 0; slab < kSlabs; ++slab) put({held[slab * objects + 1]});
  EXPECT_EQ(settled(), 0u);
  purge();
  EXPECT_EQ(settled(), kSlabs);
  // The middle one, one that a refill takes from, and one that changes its list.
  put({held[2 * objects + 8]});
  EXPECT_EQ(settled(), kSlabs - 1);
  put(take(c, 1));
  put({held.begin() + 4 * objects + 8, held.begin() + 4 * objects + objects});
  heap_->check();
  EXPECT_GE(settled(), kSlabs - 3);
  EXPECT_FALSE(slab_of(held[4 * objects])->settled);
  purge();
  EXPECT_EQ(settled(), kSlabs);
  EXPECT_GT(slab_of(held[4 * objects])->gone.count(), 0u);
  for (unsigned slab = 0; slab < kSlabs; ++slab) {
    const unsigned end = slab == 4 ? 8 : objects;
    for (unsigned i = 0; i < end; ++i) {
      if (i != 1 && (slab != 2 || i != 8)) put({held[slab * objects + i]});
    }
  }
}

// Pages of the next objects come into a slab to which nothing came back.
TEST_F(HeapTest, PagesPopulatedInASettledSlabGoAgain) {
  const SizeClass c = class_of(8 << 10);
  const unsigned objects = geometry(c).objects;
  span::purge(0);
  std::vector<void*> held = take(c, 16 * objects);
  const auto take_one = [&] {
    held.push_back(take(c, 1).front());
    return slab_of(held.back());
  };
  const auto purge = [&] {
    const os::Guard guard(heap_->lock());
    heap_->purge(nullptr, Heap::Walk::kNow);
    heap_->check();
  };
  const auto needed = [](const Slab* slab) {
    return (slab->shape().objects - slab->free) * (size_t{8} << 10) / os::page_size();
  };
  const Slab* const slab = take_one();
  if (slab->charged_pages() == needed(slab)) GTEST_SKIP() << "the system does not populate";
  if (slab->gone.empty()) GTEST_SKIP() << "the slab lies in memory that was used";
  while (slab->charged_pages() != needed(slab)) ASSERT_EQ(take_one(), slab);
  ASSERT_FALSE(slab->gone.empty());
  purge();
  ASSERT_TRUE(slab->settled && !slab->holed);
  ASSERT_EQ(take_one(), slab);
  EXPECT_GT(slab->charged_pages(), needed(slab));
  purge();
  EXPECT_EQ(slab->charged_pages(), needed(slab));
  put(held);
}

TEST_F(HeapTest, EmptySlabsGoBackButTheLastOfTheirClass) {
  const SizeClass c = class_of(1024);
  const size_t bytes_before = heap_->counters().slab_bytes();
  const std::vector<void*> objects = take(c, 64 * 5);
  EXPECT_EQ(heap_->counters().slab_bytes() - bytes_before, 5 * kGranule);
  std::set<uintptr_t> bases;
  for (void* p : objects) bases.insert(slab_of(p)->base);
  ASSERT_EQ(bases.size(), 5u);
  const unsigned long released = heap_->counters().classes[c].slabs_released.get();
  put(objects);
  EXPECT_EQ(heap_->counters().classes[c].slabs_released.get() - released, 4u);
  EXPECT_EQ(heap_->counters().slab_bytes() - bytes_before, kGranule);
  {
    const os::Guard guard(heap_->lock());
    heap_->check();
    heap_->trim_spares(0);
  }
  unsigned left = 0;
  for (const uintptr_t base : bases) left += pagemap.of(address(base)).is_slab();
  EXPECT_EQ(left, 1u);
  // It serves the next refill.
  const unsigned long created = heap_->counters().classes[c].slabs_created.get();
  put(take(c, 64));
  EXPECT_EQ(heap_->counters().classes[c].slabs_created.get(), created);
}

TEST_F(HeapTest, TheLastSlabOfAClassGoesWithTheNextTick) {
  const SizeClass used = class_of(64);
  const std::vector<void*> kept = take(used, 1);
  size_t long_bytes = 0;
  for (SizeClass c = class_of(1024); c < kSizeClasses; ++c) {
    put(take(c, 1));
    if (geometry(c).granules != 1) long_bytes += size_t{geometry(c).granules} << kGranuleLog;
  }
  const size_t before = heap_->counters().slab_bytes();
  put(take(used, 1));
  EXPECT_EQ(heap_->counters().slab_bytes(), before);
  span::idle_bytes();  // a tick
  put(take(used, 1));
  // All but the slab that has an object.
  EXPECT_EQ(heap_->counters().slab_bytes(), kGranule);
  EXPECT_GE(before, long_bytes + kGranule);
  // Those of one granule serve other classes; the others are free spans.
  EXPECT_LE(heap_->counters().spare_bytes.get(), before - long_bytes - kGranule);
  // One that is in use has a slab again at once.
  put(take(class_of(32 << 10), 1));
  put(kept);
  const os::Guard guard(heap_->lock());
  heap_->check();
}

// A thread that calls nothing but calloc must look awake, and let go of what it stopped using.
TEST_F(HeapTest, AnObjectOfPagesWithoutMemoryIsARefillToo) {
  const SizeClass c = class_of(8 << 10);
  const SizeClass unused = class_of(16 << 10);
  span::purge(0);
  std::vector<void*> objects;
  const auto take_zero = [&] {
    const os::Guard guard(heap_->lock());
    objects.push_back(heap_->take_zero(c));
    ASSERT_NE(objects.back(), nullptr);
  };
  take_zero();
  put(take(unused, 1));
  const ClassCounters& counters = heap_->counters().classes[c];
  const unsigned long refills = counters.refills.get();
  const unsigned long all_refills = heap_->counters().refills.get();
  heap_->idle_ns(os::now_ns());
  take_zero();
  EXPECT_EQ(heap_->idle_ns(os::now_ns()), 0u);
  EXPECT_EQ(counters.refills.get(), refills + 1);
  EXPECT_EQ(heap_->counters().refills.get(), all_refills + 1);
  EXPECT_EQ(heap_->counters().classes[unused].slabs(), 1u);
  span::idle_bytes();  // a tick
  take_zero();
  EXPECT_EQ(heap_->counters().classes[unused].slabs(), 0u);
  put(objects);
}

TEST_F(HeapTest, SpareSlabsServeTheirOwnClassAsTheyAreAndOthersCutAnew) {
  const SizeClass own = class_of(1024);
  const SizeClass other = class_of(512);
  const std::vector<void*> many = take(own, 64 * 8);
  std::set<const Slab*> slabs;
  for (void* p : many) slabs.insert(slab_of(p));
  put(many);
  // Seven spare slabs, and one that is listed.
  EXPECT_EQ(heap_->counters().spare_bytes.get(), 7 * kGranule);
  const std::vector<void*> again = take(own, 64 * 3);
  for (void* p : again) EXPECT_TRUE(slabs.contains(slab_of(p)));
  EXPECT_EQ(heap_->counters().spare_bytes.get(), 5 * kGranule);
  const std::vector<void*> others = take(other, 128);
  EXPECT_EQ(heap_->counters().spare_bytes.get(), 4 * kGranule);
  for (void* p : others) EXPECT_EQ(slab_of(p)->size_class, other);
  // A slab of the class wanted is found below one of another class.
  put(others);
  const std::vector<void*> last = take(own, 64);
  for (void* p : last) EXPECT_TRUE(slabs.contains(slab_of(p)));
  put(last);
  put(again);
  const os::Guard guard(heap_->lock());
  heap_->check();
}

// The locks of spans and of metadata are all heaps'.
TEST_F(HeapTest, ALargeHeapGetsAndReleasesSlabsSeveralAtATime) {
  const auto shared_locks = [] { return span::totals().locks + metadata::locks(); };
  constexpr unsigned kSlabs = 200;
  span::purge(0);  // what is resident comes first, in pieces
  const unsigned long before = shared_locks();
  // Slabs of shorter objects come from memory populated ahead, one by one.
  const std::vector<void*> many = take(class_of(2048), 32 * kSlabs);
  const unsigned long taken = shared_locks();
  EXPECT_LE(taken - before, 2 * kSlabs / 2);
  put(many);
  const os::Guard guard(heap_->lock());
  heap_->check();
  const unsigned long returned = shared_locks();
  heap_->give_up_spares();
  EXPECT_LE(shared_locks() - returned, 2 * (kSlabs / slab::kMostAtOnce + 1));
}

// Those that nobody needs go with time while the heap shrinks, too, and more spares come than stay.
TEST_F(HeapTest, SparesGoWithTimeWhileTheHeapShrinks) {
  const SizeClass c = class_of(2048);
  const unsigned each = geometry(c).objects;
  const std::vector<void*> many = take(c, 400 * each);
  auto next = many.begin();
  const auto put_slabs = [&](unsigned count) {
    put({next, next + count * each});
    next += count * each;
  };
  put_slabs(280);
  const size_t most = heap_->counters().spare_bytes.get();
  EXPECT_GE(most, 200 * kGranule);
  size_t least_seen = most;
  for (unsigned tick = 0; tick < 2 * span::kDecayTicks; ++tick) {
    put_slabs(9);
    span::idle_bytes();
    put(take(class_of(48), 1));
    least_seen = std::min(least_seen, heap_->counters().spare_bytes.get());
  }
  EXPECT_LT(least_seen, most / 4);
  put({next, many.end()});
}

// Where a heap at work has too much, a few spare slabs stay, without memory. The rest becomes free
// spans. Once the heap rests, none stay.
TEST_F(HeapTest, OfAHeapAtWorkAFewSparesStayWithoutMemory) {
  const SizeClass c = class_of(2048);
  const std::vector<void*> many = take(c, 60 * geometry(c).objects);
  put(many);
  ASSERT_GE(heap_->counters().spare_bytes.get(), 50 * kGranule);
  const os::Guard guard(heap_->lock());
  const size_t purged = heap_->purge(nullptr, Heap::Walk::kExcess);
  const size_t stayed = heap_->counters().spare_bytes.get();
  EXPECT_GE(stayed, 4 * kGranule);
  EXPECT_LE(stayed, 16 * kGranule);
  EXPECT_GT(purged, 0u);
  EXPECT_EQ(heap_->counters().charged_pages(), 0u);
  EXPECT_FALSE(heap_->is_purged());
  heap_->check();
  heap_->purge(nullptr, Heap::Walk::kNow);
  EXPECT_EQ(heap_->counters().spare_bytes.get(), 0u);
  EXPECT_TRUE(heap_->is_purged());
  heap_->check();
}

TEST_F(HeapTest, ADoubleFreeIsFoundAfterTheSlabWasCutAnew) {
  const SizeClass small = class_of(16);
  const std::vector<void*> objects = take(small, 4096 * 2);
  put(objects);
  const std::vector<void*> large = take(class_of(1024), 64);
  void* late = nullptr;
  for (void* p : objects) {
    if (slab_of(p)->size_class != small) late = p;
  }
  ASSERT_NE(late, nullptr);
  const auto put_again = [&] {
    const os::Guard guard(heap_->lock());
    heap_->put_back(small, &late, &late + 1);
  };
  EXPECT_DEATH(put_again(), "double free of");
  put(large);
}

TEST_F(HeapTest, NeighboursComeBackTogether) {
  std::mt19937 random(23);
  for (const size_t size : {16, 48, 112, 1024, 4096}) {
    const SizeClass c = class_of(size);
    for (int round = 0; round < 20; ++round) {
      std::vector<void*> objects = take(c, 3 * geometry(c).objects / 2);
      std::sort(objects.begin(), objects.end());
      std::vector<std::vector<void*>> pieces;
      for (size_t at = 0; at < objects.size();) {
        const size_t length = std::min<size_t>(objects.size() - at, 1 + random() % 200);
        auto& piece = pieces.emplace_back(objects.begin() + static_cast<ptrdiff_t>(at),
                                          objects.begin() + static_cast<ptrdiff_t>(at + length));
        if (random() % 2 == 0) std::reverse(piece.begin(), piece.end());
        at += length;
      }
      std::shuffle(pieces.begin(), pieces.end(), random);
      objects.clear();
      for (const auto& piece : pieces) objects.insert(objects.end(), piece.begin(), piece.end());
      const os::Guard guard(heap_->lock());
      EXPECT_EQ(heap_->put_back(c, objects.data(), objects.data() + objects.size()),
                objects.data() + objects.size());
      heap_->check();
    }
    EXPECT_EQ(held_here(), 0u) << size;
  }
}

TEST_F(HeapTest, WhatIsWrongInARunIsNamed) {
  const SizeClass c = class_of(48);
  std::vector<void*> objects = take(c, geometry(c).objects);
  std::sort(objects.begin(), objects.end());
  const auto give = [&](std::vector<void*> what) {
    const os::Guard guard(heap_->lock());
    heap_->put_back(c, what.data(), what.data() + what.size());
  };
  give({objects[70]});
  // A death test runs in a process of its own, with slabs elsewhere.
  const auto line = [](const char* what, const void* p) {
    char text[100];
    snprintf(text, sizeof text, "%s 0x[0-9a-f]+%04zx", what, number(p) % kGranule);
    return std::string(text);
  };
  EXPECT_DEATH(give({objects[68], objects[69], objects[70], objects[71]}),
               line("double free of", objects[70]));
  EXPECT_DEATH(give({objects[71], objects[70], objects[69]}), line("double free of", objects[70]));
  // Behind the last object there is room, but no object.
  auto* const behind = static_cast<char*>(objects.back()) + 48;
  ASSERT_EQ(slab_of(behind), slab_of(objects.back()));
  EXPECT_DEATH(give({objects.end()[-2], objects.back(), behind}),
               line("free of an interior pointer", behind));
  objects.erase(objects.begin() + 70);
  put(objects);
}

TEST_F(HeapTest, ReceivesBitmaps) {
  std::mt19937 random(11);
  for (const size_t size : {16, 48, 64, 1024, 8192, 32768}) {
    const SizeClass c = class_of(size);
    std::vector<void*> objects = take(c, geometry(c).objects * 2);
    std::shuffle(objects.begin(), objects.end(), random);
    std::vector<std::vector<void*>> by_slab(2);
    for (void* p : objects) by_slab[slab_of(p) == slab_of(objects[0])].push_back(p);
    for (const std::vector<void*>& batch : by_slab) {
      const unsigned long before = received();
      for (Message* message : packed(batch)) send(message);
      drain_all();
      EXPECT_EQ(received() - before, batch.size());
    }
    EXPECT_EQ(held_here(), 0u) << size;
  }
}

TEST_F(HeapTest, ReceivesRecordsOfSeveralSlabs) {
  // Three slabs of three classes, one carrier.
  const std::vector<void*> large = take(class_of(256), 4);
  const std::vector<void*> small = take(class_of(16), 130);
  const std::vector<void*> middle = take(class_of(96), 5);
  const unsigned long before = received();
  const unsigned long messages = heap_->counters().messages_received.get();
  receive(recorded({large, small, middle}));
  EXPECT_EQ(received() - before, 139u);
  EXPECT_EQ(heap_->counters().messages_received.get() - messages, 1u);
  EXPECT_EQ(held_here(), 0u);
}

// The slab of the carrier becomes wholly free by its own message, and goes: nothing is read from
// the carrier after that.
TEST_F(HeapTest, RecordsMayFreeTheCarriersSlab) {
  const SizeClass c = class_of(1024);
  std::vector<void*> objects = take(c, 128);
  std::vector<void*> carriers;
  std::vector<void*> others;
  for (void* p : objects) {
    (slab_of(p) == slab_of(objects.front()) ? carriers : others).push_back(p);
  }
  const unsigned long released = heap_->counters().classes[c].slabs_released.get();
  receive(recorded({carriers, others}));
  EXPECT_EQ(held_here(), 0u);
  EXPECT_GE(heap_->counters().classes[c].slabs_released.get() - released, 1u);
}

TEST_F(HeapTest, DrainsKeepToTheirBudget) {
  const std::vector<void*> objects = take(class_of(1024), 64 * 20);
  std::vector<std::vector<void*>> slabs;
  for (void* p : objects) {
    if (slabs.empty() || slab_of(slabs.back().front()) != slab_of(p)) slabs.emplace_back();
    slabs.back().push_back(p);
  }
  for (const auto& slab : slabs) {
    for (Message* message : packed(slab)) send(message);
  }
  // Each message is one slab; a drain stops at the first that reaches the budget.
  const size_t before = held();
  EXPECT_TRUE(drain(1));
  EXPECT_EQ(before - held(), slabs[0].size() * 1024);
  const size_t middle = held();
  EXPECT_TRUE(drain(200 * 1024));
  EXPECT_GE(middle - held(), 200u * 1024);
  EXPECT_LT(middle - held(), (200u + 64) * 1024);
  drain_all();
  EXPECT_EQ(held_here(), 0u);
}

TEST_F(HeapTest, RefillTakesInAtMostDrainBytes) {
  const std::vector<void*> objects = take(class_of(1024), 64 * 20);
  for (size_t i = 0; i < objects.size(); i += 16) {
    for (Message* message : packed({objects.begin() + static_cast<long>(i),
                                    objects.begin() + static_cast<long>(i) + 16})) {
      send(message);
    }
  }
  const size_t before = held();
  void* slot = nullptr;
  const os::Guard guard(heap_->lock());
  EXPECT_EQ(heap_->refill(class_of(1024), &slot, 1), 1u);
  EXPECT_EQ(before - held(), (1u << 20) - 1024);
  heap_->drain_all();
  heap_->put_word(slab_of(slot), index_of(slot) / 64, uint64_t{1} << index_of(slot) % 64);
  EXPECT_EQ(held_here(), 0u);
}

// Many objects of as many slabs, each a miss: some with each refill, and all before new memory.
TEST_F(HeapTest, RefillTakesInSomeRecordsAtATime) {
  const SizeClass c = class_of(2048);
  const unsigned each = geometry(c).objects;
  constexpr unsigned kSlabs = 256;
  constexpr unsigned kRecords = 8;
  const std::vector<void*> objects = take(c, kSlabs * each);
  const std::vector<void*> others = take(class_of(64), 2);
  put({others[1]});
  std::set<void*> sent;
  for (unsigned slab = 0; slab < kSlabs; slab += kRecords) {
    std::vector<std::vector<void*>> batches;
    for (unsigned i = 0; i < kRecords; ++i) batches.push_back({objects[(slab + i) * each]});
    for (const auto& batch : batches) sent.insert(batch.front());
    send(recorded(batches));
  }
  const auto refill = [&](SizeClass size_class, unsigned wanted) {
    const os::Guard guard(heap_->lock());
    std::vector<void*> slots(wanted);
    const unsigned taken = heap_->refill(size_class, &slots[wanted - 1], wanted);
    slots.erase(slots.begin(), slots.end() - taken);
    return slots;
  };
  const unsigned long before = received();
  std::vector<void*> taken = refill(class_of(64), 1);
  EXPECT_EQ(received() - before, 64u);
  // Some more than it hands out, up to the end of their message.
  constexpr unsigned kWanted = 100;
  std::vector<void*> back = refill(c, kWanted);
  EXPECT_EQ(back.size(), kWanted);
  EXPECT_GT(received() - before, 64 + kWanted + kRecords);
  EXPECT_LT(received() - before, 64 + kWanted + 4 * kRecords);
  const unsigned long created = heap_->counters().classes[c].slabs_created.get();
  const std::vector<void*> rest = take(c, kSlabs - kWanted);
  EXPECT_EQ(heap_->counters().classes[c].slabs_created.get(), created);
  back.insert(back.end(), rest.begin(), rest.end());
  EXPECT_EQ(std::set<void*>(back.begin(), back.end()), sent);
  put(objects);
  put({others[0]});
  put(taken);
}

// A bounded drain leaves messages behind; before it takes new memory, a heap looks at them.
TEST_F(HeapTest, MessagesComeBeforeNewMemory) {
  const SizeClass c = class_of(2048);
  const std::vector<void*> objects = take(c, geometry(c).objects);
  const unsigned long created = heap_->counters().classes[c].slabs_created.get();
  for (Message* message : packed({objects[7], objects[9]})) send(message);
  const os::Guard guard(heap_->lock());
  void* slots[2] = {};
  ASSERT_EQ(heap_->refill(c, &slots[1], 2), 0u) << "the last message of a queue stays";
  ASSERT_EQ(heap_->refill_from_new(c, &slots[1], 2), 2u);
  EXPECT_EQ(slots[1], objects[7]);
  EXPECT_EQ(slots[0], objects[9]);
  EXPECT_EQ(heap_->counters().classes[c].slabs_created.get(), created);
  for (void* p : objects) {
    heap_->put_word(slab_of(p), index_of(p) / 64, uint64_t{1} << index_of(p) % 64);
  }
}

TEST_F(HeapTest, RandomMixOfAllWaysHome) {
  std::mt19937 random(12);
  std::vector<void*> live;
  for (int step = 0; step < 2000; ++step) {
    if (live.size() < 100 || random() % 2 == 0) {
      const auto c = static_cast<SizeClass>(random() % 24);
      for (void* p : take(c, 1 + static_cast<unsigned>(random() % 100))) live.push_back(p);
      continue;
    }
    std::shuffle(live.end() - 100, live.end(), random);
    std::vector<void*> some(live.end() - 50, live.end());
    live.resize(live.size() - 50);
    if (random() % 2 == 0) {
      put(some);
      continue;
    }
    while (!some.empty()) {
      const Slab* slab = slab_of(some.back());
      const auto others =
          std::partition(some.begin(), some.end(), [&](void* p) { return slab_of(p) != slab; });
      const std::vector<void*> batch(others, some.end());
      some.erase(others, some.end());
      uint64_t words[kMaxWords] = {};
      for (void* p : batch) words[index_of(p) / 64] |= uint64_t{1} << index_of(p) % 64;
      if (count_bits(used_words(slab->shape(), words)) <= record_capacity(slab->shape().size) &&
          random() % 2 == 0) {
        send(recorded({batch}));
      } else {
        for (Message* message : packed(batch)) send(message);
      }
    }
    if (random() % 8 == 0) drain(random() % 100'000);
  }
  put(live);
  drain_all();
  EXPECT_EQ(held_here(), 0u);
  heap_->check();
}

using HeapDeathTest = HeapTest;

// With a key, whatever is written is seen by the seal: unit/key_test.cc.
TEST_F(HeapDeathTest, DamagedBitmaps) {
  const SizeClass c = class_of(48);
  const std::vector<void*> objects = take(c, 200);
  const std::string line = "write after free: damaged message in 0x[0-9a-f]+: slab 0x";
  Message* message = packed({objects[0], objects[1]}).front();
  // A word that the slab has not, no object at all, objects behind the last.
  EXPECT_DEATH((message->link.store(end_link(message, bitmap_tag(22, 1))), receive(message)), line);
  EXPECT_DEATH((message->link.store(end_link(message, bitmap_tag(0, 23))), receive(message)), line);
  EXPECT_DEATH((message->link.store(end_link(message, bitmap_tag(1, 0))), receive(message)), line);
  EXPECT_DEATH((message->words()[0] = 0, receive(message)), line);
  // More words than what was freed with the carrier has room for.
  EXPECT_DEATH((message->link.store(end_link(message, bitmap_tag(0, 12))), receive(message)), line);
  EXPECT_DEATH((message->link.store(end_link(message, bitmap_tag(21, 1))),
                message->words()[0] = uint64_t{1} << 63, receive(message)),
               line);
  EXPECT_DEATH((message->link.store(end_link(message, bitmap_tag(0, 4))), message->words()[1] = 0,
                message->words()[2] = 0, message->words()[3] = ~uint64_t{0}, receive(message)),
               "double free of 0x[0-9a-f]+, or write after free to the message that brought it, in "
               "0x[0-9a-f]+: slab 0x[0-9a-f]+, size class 48 bytes");
  receive(message);
  put({objects.begin() + 2, objects.end()});
}

TEST_F(HeapDeathTest, DamagedRecords) {
  const std::vector<void*> objects = take(class_of(256), 4);
  const std::string line =
      "write after free: damaged message in 0x[0-9a-f]+: slab 0x[0-9a-f]+, size class 256 bytes";
  Message* message = recorded({objects});
  Record& record = message->records()[0];
  EXPECT_DEATH((record.slab = 0, receive(message)), line);
  EXPECT_DEATH((record.slab = UINT32_MAX, receive(message)), line);
  EXPECT_DEATH((record.slab += 1, receive(message)), line);
  EXPECT_DEATH((record.word = 64, receive(message)), line);
  EXPECT_DEATH((record.word = UINT32_MAX, receive(message)), line);
  EXPECT_DEATH((record.freed = 0, receive(message)), line);
  EXPECT_DEATH((message->link.store(end_link(message, records_tag(0))), receive(message)), line);
  EXPECT_DEATH((message->link.store(end_link(message, records_tag(128))), receive(message)), line);
  EXPECT_DEATH((record.freed |= uint64_t{1} << 60, receive(message)),
               "double free of 0x[0-9a-f]+, or write after free to the message that brought it");
  receive(message);
}

// In the last object of a slab, of what says that it goes on behind it, where nothing can be read.
TEST_F(HeapDeathTest, MessagesThatLeaveTheirSlab) {
  const auto expect_damaged = [&](size_t size, Tag tag) {
    const Geometry& shape = geometry(class_of(size));
    const std::vector<void*> objects = take(class_of(size), 2u * shape.objects);
    const Slab* slab = slab_of(objects.front());
    auto* message = static_cast<Message*>(address(slab->base + (shape.objects - 1u) * shape.size));
    ASSERT_NE(std::find(objects.begin(), objects.end(), message), objects.end());
    memset(message->words(), 0xFF, shape.size - sizeof(Message));
    message->link.store(end_link(message, tag));
    void* behind = address(slab->base + (size_t{shape.granules} << kGranuleLog));
    EXPECT_DEATH((mprotect(behind, kGranule, PROT_NONE), receive(message)),
                 "write after free: damaged message in");
    put(objects);
  };
  expect_damaged(192, records_tag(kMaxRecords));
  expect_damaged(48, bitmap_tag(0, geometry(class_of(48)).words));
}

// The first of the records is read last; by then the slab in which they are written is gone.
TEST_F(HeapDeathTest, RecordsThatLetTheirOwnSlabGo) {
  const Geometry& shape = geometry(class_of(2048));
  ASSERT_LE(shape.objects, 64);
  const std::vector<void*> objects = take(class_of(2048), 2u * shape.objects);
  const Slab* slab = slab_of(objects.front());
  std::vector<void*> all;
  std::copy_if(objects.begin(), objects.end(), std::back_inserter(all),
               [&](void* p) { return slab_of(p) == slab; });
  ASSERT_EQ(all.size(), shape.objects);
  Message* message = recorded({{all.front()}, all});
  EXPECT_DEATH(receive(message), "write after free: damaged message in");
  put(objects);
}

TEST_F(HeapDeathTest, RecordsOfAnotherHeap) {
  Heap* other = adopted();
  const std::vector<void*> mine = take(class_of(256), 4);
  void* theirs = nullptr;
  ASSERT_EQ(other->refill_from_new(class_of(256), &theirs, 1), 1u);
  Message* message = recorded({mine, {theirs}});
  EXPECT_DEATH(receive(message), "damaged message in 0x");
  receive(recorded({mine}));
  other->put_word(slab_of(theirs), index_of(theirs) / 64, uint64_t{1} << index_of(theirs) % 64);
  registry::abandon(other);
}

TEST_F(HeapDeathTest, LinksThatLeadAstray) {
  const std::vector<void*> objects = take(class_of(64), 4);
  Message* first = packed({objects[0]}).front();
  Message* last = packed({objects[1]}).front();
  // Not even in the window; and a place in it where nothing is.
  alignas(64) uint64_t local[8] = {number(last)};
  const std::string line =
      "write after free: 0x[0-9a-f]+ stands where the link was of the message of returned objects "
      "in 0x[0-9a-f]+: slab 0x[0-9a-f]+, size class 64 bytes";
  const uint64_t link = first->link.load();
  EXPECT_DEATH((first->link.store(with_next(link, reinterpret_cast<Message*>(local))),
                heap_->inbox().push({first, last}), drain_all()),
               line);
  // Where nothing is mapped, in the window and outside; between two addresses of objects; and what
  // programs write: nothing, and pointers without a tag.
  const uintptr_t inside = window.heap.end - kGranule;
  for (const uintptr_t astray : {uintptr_t{0x1000}, inside, number(last) + 8, uintptr_t{0}}) {
    EXPECT_DEATH(
        (heap_->inbox().push({first, last}),
         first->link.store(with_next(link, reinterpret_cast<Message*>(astray))), drain_all()),
        line);
  }
  for (const uint64_t written : {uint64_t{0}, number(last), number(first)}) {
    EXPECT_DEATH((heap_->inbox().push({first, last}), first->link.store(written), drain_all()),
                 line);
  }
  const span::Range nothing = span::acquire(1, kGranule);
  *static_cast<uint64_t*>(address(nothing.base)) = number(last);
  EXPECT_DEATH((first->link.store(with_next(link, reinterpret_cast<Message*>(nothing.base))),
                heap_->inbox().push({first, last}), drain_all()),
               line);
  span::release(nothing.base, 1, true);
  put(objects);
}

TEST_F(HeapDeathTest, AMessageInASlabThatIsGone) {
  const span::Range nothing = span::acquire(1, kGranule);
  auto* message = static_cast<Message*>(address(nothing.base));
  message->link.store(end_link(message, bitmap_tag(0, 1)));
  EXPECT_DEATH(deliver({message, message}), "double free of 0x[0-9a-f]+: it had come home");
  span::release(nothing.base, 1, true);
}

// By the option misuse=continue: what had been pushed is lost, what comes later arrives.
TEST_F(HeapTest, GoesOnBehindACut) {
  const test::DefaultOptions defaults;
  options.misuse.store(1);
  const std::vector<void*> objects = take(class_of(64), 6);
  Message* first = packed({objects[0]}).front();
  heap_->inbox().push({first, first});
  send(packed({objects[1]}).front());
  first->link.store(0);
  testing::internal::CaptureStderr();
  drain_all();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, testing::StartsWith("loft: write after free: 0x0 stands where the link was"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
  EXPECT_FALSE(heap_->inbox().maybe_pending());
  EXPECT_EQ(held_here(), 6 * 64u);
  receive(packed({objects[2], objects[3]}).front());
  EXPECT_EQ(held_here(), 4 * 64u);
  put({objects[0], objects[1], objects[4], objects[5]});
}

class RegistryTest : public HeapTest {};

TEST_F(RegistryTest, ParkAndAdoptKeepIdAndSlabs) {
  const HeapId id = heap_->id();
  const std::vector<void*> objects = take(class_of(80), 10);
  Heap* const before = heap_;
  EXPECT_FALSE(before->abandoned());
  registry::abandon(heap_);
  EXPECT_EQ(heap_, nullptr);
  EXPECT_TRUE(before->abandoned());
  const unsigned count = registry::count();
  const unsigned adoptions = registry::adoptions();
  Heap* const again = registry::adopt(heap_);
  EXPECT_EQ(again, before);
  EXPECT_EQ(heap_, again);
  EXPECT_EQ(again->id(), id);
  EXPECT_FALSE(again->abandoned());
  EXPECT_EQ(registry::count(), count);
  EXPECT_EQ(registry::adoptions(), adoptions + 1);
  EXPECT_EQ(registry::at(id), again);
  EXPECT_EQ(directory[id].load(), &again->inbox());
  put(objects);
  EXPECT_EQ(held_here(), 0u);
}

TEST_F(RegistryTest, EveryHeapHasAnIdOfItsOwn) {
  std::set<Heap*> heaps;
  std::set<unsigned> ids;
  for (int i = 0; i < 100; ++i) {
    Heap* heap = adopted();
    ASSERT_NE(heap, nullptr);
    EXPECT_EQ(number(heap) % 64, 0u);
    EXPECT_TRUE(heaps.insert(heap).second);
    EXPECT_TRUE(ids.insert(heap->id()).second);
    EXPECT_GE(heap->id(), 1);
    EXPECT_LE(heap->id(), registry::count());
  }
  for (Heap* heap : heaps) registry::abandon(heap);
}

TEST_F(RegistryTest, RefillsDrainWhatNobodyOwns) {
  const SizeClass c = class_of(4096);
  const std::vector<void*> objects = take(c, geometry(c).objects * 2);
  Heap* const abandoned = heap_;
  std::vector<std::vector<void*>> slabs(2);
  for (void* p : objects) slabs[slab_of(p) == slab_of(objects[0])].push_back(p);
  for (const auto& slab : slabs) {
    for (Message* message : packed(slab)) send(message);
  }
  Heap* mine = adopted();
  Heap* place = heap_;
  registry::abandon(place);
  // Each looks at a few heaps, those that have rested; the cursor comes round.
  for (unsigned i = 0; i <= registry::count() && abandoned->inbox().maybe_pending(); ++i) {
    const os::Guard guard(mine->lock());
    test::advance_ns(1);
    mine->take_from_others(c);
  }
  EXPECT_FALSE(abandoned->inbox().maybe_pending());
  EXPECT_EQ(held_here(), 0u);
  registry::abandon(mine);
  registry::adopt(heap_);
}

// A drain may take a millisecond, and many heaps may wait for one.
TEST_F(RegistryTest, OneRefillDrainsFourHeapsAtMost) {
  constexpr SizeClass kClass = class_of(4096);
  Heap* const mine = adopted();
  std::vector<Heap*> others;
  while (others.size() < 20) others.push_back(adopted());
  for (Heap* other : others) {
    void* p = nullptr;
    {
      const os::Guard guard(other->lock());
      if (other->refill(kClass, &p, 1) == 0) other->refill_from_new(kClass, &p, 1);
    }
    send(packed({p})[0]);
    other->idle_ns(os::now_ns());
  }
  test::advance_ns(1);
  size_t most_drained = 0;
  for (unsigned i = 0; i <= registry::count(); ++i) {
    const size_t before = mine->counters().helped.get();
    const os::Guard guard(mine->lock());
    mine->take_from_others(0);
    most_drained = std::max(most_drained, mine->counters().helped.get() - before);
  }
  EXPECT_EQ(most_drained, 4u);
  for (Heap* other : others) {
    EXPECT_FALSE(other->inbox().maybe_pending()) << other->id();
    Heap* place = other;
    registry::abandon(place);
  }
  Heap* place = mine;
  registry::abandon(place);
}

TEST_F(RegistryTest, AHeapWhoseThreadDoesNotRunIsDrainedForItUnlessItIsLocked) {
  Heap* other = adopted();
  const std::vector<void*> objects = take(class_of(4096), 2);
  const unsigned long before = received();
  put(take(class_of(4096), 1));
  const uint64_t now = os::now_ns();
  EXPECT_EQ(heap_->idle_ns(now), 0u) << "it has served a refill";
  EXPECT_EQ(heap_->idle_ns(now + 2), 2u);
  for (Message* message : packed({objects[0], objects[1]})) send(message);
  const auto look = [&] {
    const os::Guard guard(other->lock());
    for (unsigned i = 0; i <= registry::count(); ++i) other->take_from_others(0);
  };
  test::advance_ns(1);
  {
    const os::Guard guard(heap_->lock());
    look();
    EXPECT_EQ(received(), before) << "this heap is locked";
    test::advance_ns(99'999);
    look();
    EXPECT_FALSE(other->stall().is_at(heap_->id()));
    test::advance_ns(1);
    look();
    EXPECT_TRUE(other->stall().is_at(heap_->id()));
  }
  EXPECT_FALSE(other->stall().is_at(heap_->id()));
  look();
  EXPECT_EQ(received(), before + 2);
  EXPECT_EQ(held_here(), 0u);
  registry::abandon(other);
}

// Slabs of a class that others had made, and that were released here, are no growth.
TEST_F(RegistryTest, WhatCameFromOthersAndWentIsNotFilled) {
  const test::DefaultOptions defaults;
  const SizeClass c = class_of(640);
  const unsigned each = geometry(c).objects;
  Heap* mine = adopted();
  const ClassCounters& counters = mine->counters().classes[c];
  ASSERT_EQ(counters.slabs(), 0u);
  std::vector<void*> moved;
  std::vector<void*> others;
  for (void* p : take(c, 2 * each)) (index_of(p) == 0 ? moved : others).push_back(p);
  put(others);
  ASSERT_EQ(moved.size(), 2u);
  const os::Guard guard(mine->lock());
  {
    const os::Guard other(heap_->lock());
    for (int slab = 0; slab < 2; ++slab) ASSERT_TRUE(mine->take_over(*heap_, c, 0, false));
  }
  mine->put_back(c, moved.data(), moved.data() + 2);
  EXPECT_EQ(counters.slabs(), -1UL) << "released here";
  mine->give_up_spares();
  const span::Range grown = span::acquire(256, kGranule);
  ASSERT_NE(grown.base, 0u);
  span::purge(0);
  std::vector<void*> objects(2 * each);
  void** const end = objects.data() + objects.size();
  void** first = end;
  const unsigned long created = counters.slabs_created.get();
  while (counters.slabs_created.get() == created) {
    ASSERT_GE(first - objects.data(), 8);
    first -= mine->refill_from_new(c, first - 1, 8);
  }
  EXPECT_LE(slab_of(*first)->charged_pages(), 2u) << "its pages come as they are touched";
  mine->put_back(c, first, end);
  mine->check();
  span::release(grown.base, 256, false);
  registry::abandon(mine);
}

// A heap that nobody uses has a slab that is mostly free. Whoever needs memory gets the slab, and
// what was on its way to it or in a cache gets there.
class TakeOverTest : public RegistryTest {
 protected:
  // Two slabs of the class: one is full, of the other a quarter is in use.
  void SetUp() override {
    RegistryTest::SetUp();
    full_ = take(kClass, kObjects);
    sparse_ = take(kClass, kObjects);
    put({sparse_.begin() + kObjects / 4, sparse_.end()});
    sparse_.resize(kObjects / 4);
    // Some tests refill this class for the heap to be seen at work. Its first slab is made now: for
    // one, help is asked for, which looks at the heap, and what looks a millisecond later finds it
    // idle.
    put(take(class_of(48), 1));
    registry::adopt(mine_);
    const os::Guard guard(mine_->lock());
    mine_->purge(nullptr, Heap::Walk::kNow);
  }
  void TearDown() override {
    registry::abandon(mine_);
    RegistryTest::TearDown();
  }

  void take_over() {
    const os::Guard guard(mine_->lock());
    const os::Guard other(heap_->lock());
    ASSERT_TRUE(mine_->take_over(*heap_, kClass, 0, false));
    EXPECT_EQ(pagemap.of(sparse_[0]).owner(), mine_->id());
    EXPECT_EQ(pagemap.of(full_[0]).owner(), heap_->id());
    mine_->check();
    heap_->check();
  }
  void drain_both() {
    for (int round = 0; round < 2; ++round) {
      for (Heap* heap : {heap_, mine_}) {
        const os::Guard guard(heap->lock());
        heap->drain_all();
        heap->check();
      }
    }
  }
  // Until few of the class were freed by others, in earlier tests as well.
  void free_own(SizeClass size_class) {
    const ClassCounters& counters = heap_->counters().classes[size_class];
    while (counters.received.get() >= counters.put.get() / 8) put(take(size_class, 1));
  }
  // How much is free in the heap's slabs of the class: taken, and given back.
  static size_t free_in(Heap* heap) {
    std::vector<void*> slots(4 * kObjects);
    void** const end = slots.data() + slots.size();
    const os::Guard guard(heap->lock());
    const unsigned free = heap->refill(kClass, end - 1, 4 * kObjects);
    EXPECT_EQ(heap->put_back(kClass, end - free, end), end);
    return free;
  }

  static constexpr SizeClass kClass = class_of(1024);
  static constexpr unsigned kObjects = geometry(kClass).objects;
  Heap* mine_ = nullptr;
  std::vector<void*> full_;
  std::vector<void*> sparse_;
};

TEST_F(TakeOverTest, TheSparseOneGoesAndTheFullOneStays) {
  take_over();
  EXPECT_EQ(free_in(mine_), kObjects - sparse_.size());
  EXPECT_EQ(free_in(heap_), 0u);
  {
    const os::Guard guard(mine_->lock());
    const os::Guard other(heap_->lock());
    EXPECT_FALSE(mine_->take_over(*heap_, kClass, 0, true)) << "what is left there is full";
  }
  for (Message* message : packed(sparse_)) send(message);
  for (Message* message : packed(full_)) send(message);
  drain_both();
  EXPECT_EQ(free_in(mine_), kObjects);
  EXPECT_EQ(free_in(heap_), kObjects);
}

TEST_F(TakeOverTest, MessagesThatWereSentBefore) {
  const unsigned long forwards = heap_->counters().forwards.get();
  for (Message* message : packed(sparse_)) send(message);
  take_over();
  drain_both();
  EXPECT_GT(heap_->counters().forwards.get(), forwards);
  EXPECT_EQ(free_in(mine_), kObjects);
  put(full_);
}

TEST_F(TakeOverTest, RecordsOfBothSlabsInCarriersOfBoth) {
  const auto half = [](const std::vector<void*>& objects, bool upper) {
    const auto middle = objects.begin() + static_cast<long>(objects.size() / 2);
    return upper ? std::vector<void*>(middle, objects.end())
                 : std::vector<void*>(objects.begin(), middle);
  };
  send(recorded({half(full_, false), half(sparse_, false)}));
  send(recorded({half(sparse_, true), half(full_, true)}));
  take_over();
  drain_both();
  EXPECT_EQ(free_in(mine_), kObjects);
  EXPECT_EQ(free_in(heap_), kObjects);
}

TEST_F(TakeOverTest, WhatACacheGivesBackIsNotTheOldOwnersAnyMore) {
  take_over();
  void* cached[] = {full_[0], sparse_[0], full_[1]};
  {
    const os::Guard guard(heap_->lock());
    EXPECT_EQ(heap_->put_back(kClass, cached, std::end(cached)), cached + 1);
    EXPECT_EQ(heap_->put_back(kClass, cached + 2, std::end(cached)), std::end(cached));
  }
  {
    const os::Guard guard(mine_->lock());
    EXPECT_EQ(mine_->put_back(kClass, cached + 1, cached + 2), cached + 2);
  }
  for (Message* message : packed({sparse_.begin() + 1, sparse_.end()})) send(message);
  for (Message* message : packed({full_.begin() + 2, full_.end()})) send(message);
  drain_both();
}

TEST_F(TakeOverTest, FromAHeapThatNobodyOwnsAndNotFromOneAtWork) {
  const auto look_at_all = [&] {
    for (unsigned i = 0; i <= registry::count(); ++i) {
      // Some refill since the look before.
      put(take(class_of(48), 1));
      const os::Guard guard(mine_->lock());
      mine_->take_from_others(kClass);
    }
  };
  look_at_all();
  EXPECT_EQ(pagemap.of(sparse_[0]).owner(), heap_->id());
  heap_->set_abandoned(true);
  for (unsigned i = 0; i <= registry::count(); ++i) {
    const os::Guard guard(mine_->lock());
    mine_->take_from_others(kClass);
  }
  heap_->set_abandoned(false);
  EXPECT_EQ(pagemap.of(sparse_[0]).owner(), mine_->id());
  put(full_);
  for (Message* message : packed(sparse_)) send(message);
  drain_both();
}

// The objects that are missing in the first one may be in the cache of the thread that sleeps.
TEST_F(TakeOverTest, FromAThreadThatSleepsAllButTheFirst) {
  constexpr uint64_t kSecond = 1'000'000'000;
  const auto look_at_all = [&](uint64_t last_refill) {
    put(take(class_of(48), 1));
    heap_->idle_ns(last_refill);
    for (unsigned i = 0; i <= registry::count(); ++i) {
      const os::Guard guard(mine_->lock());
      mine_->take_from_others(kClass);
    }
  };
  look_at_all(os::now_ns() - kSecond);
  EXPECT_EQ(pagemap.of(sparse_[0]).owner(), heap_->id());
  const std::vector<void*> rest = take(kClass, kObjects - static_cast<unsigned>(sparse_.size()));
  std::vector<void*> more = take(kClass, kObjects);
  put(rest);
  put({more.begin() + 1, more.end()});
  look_at_all(os::now_ns() - kSecond);
  EXPECT_NE(pagemap.of(more[0]).owner(), pagemap.of(sparse_[0]).owner());
  look_at_all(1);  // that was long ago
  EXPECT_EQ(pagemap.of(more[0]).owner(), mine_->id());
  EXPECT_EQ(pagemap.of(sparse_[0]).owner(), mine_->id());
  put(full_);
  more.resize(1);
  for (void* p : {more[0], sparse_[0]}) send(packed({p})[0]);
  for (Message* message : packed({sparse_.begin() + 1, sparse_.end()})) send(message);
  drain_both();
}

TEST_F(RegistryTest, AHeapRestsUntilSomebodyTakesObjectsOut) {
  heap_->purge(nullptr, Heap::Walk::kNow);
  EXPECT_TRUE(heap_->is_idle());
  put(take(class_of(1024), 1));
  EXPECT_FALSE(heap_->is_idle());
  heap_->purge(nullptr, Heap::Walk::kNow);
  EXPECT_TRUE(heap_->is_idle());
}

// A thread that works, and whose objects die faster than it needs new ones.
TEST_F(TakeOverTest, FromAHeapAtWorkThatHasTooMany) {
  const auto owned = [](const std::vector<void*>& some, const Heap* by) {
    return static_cast<unsigned>(std::count_if(
        some.begin(), some.end(), [by](void* p) { return pagemap.of(p).owner() == by->id(); }));
  };
  const auto look_at_all = [&] {
    for (unsigned i = 0; i <= registry::count(); ++i) {
      put(take(class_of(48), 1));
      const os::Guard guard(mine_->lock());
      mine_->take_from_others(kClass);
    }
    mine_->check();
    heap_->check();
  };
  free_own(kClass);
  // What the sparse slab has free is taken first; then four slabs of which a quarter is in use.
  const std::vector<void*> rest = take(kClass, kObjects - kObjects / 4);
  std::vector<void*> more = take(kClass, 3 * kObjects);
  std::vector<void*> left = {sparse_[0]};
  put(rest);
  const auto thin_out = [&](size_t slab) {
    const auto begin = more.begin() + static_cast<long>(slab * kObjects);
    put({begin + kObjects / 4, begin + kObjects});
    left.push_back(*begin);
  };
  thin_out(0);
  thin_out(1);
  EXPECT_EQ(heap_->surplus(kClass), Heap::Surplus::kNone) << "three are none too many";
  look_at_all();
  EXPECT_EQ(owned(left, heap_), 3u);
  thin_out(2);
  EXPECT_EQ(heap_->surplus(kClass), Heap::Surplus::kHalfFree);
  look_at_all();
  EXPECT_EQ(owned(left, heap_), 3u) << "one went, and three are none too many again";
  EXPECT_EQ(owned(left, mine_), 1u);
  std::vector<void*> all = sparse_;
  for (size_t slab = 0; slab < 3; ++slab) {
    const auto begin = more.begin() + static_cast<long>(slab * kObjects);
    all.insert(all.end(), begin, begin + kObjects / 4);
  }
  for (void* p : all) send(packed({p})[0]);
  put(full_);
  drain_both();
}

// Of those that are to spare, the first is kept: the owner's next refill will find it.
TEST_F(TakeOverTest, TheFirstOnesAreKept) {
  {
    const os::Guard guard(mine_->lock());
    const os::Guard other(heap_->lock());
    EXPECT_FALSE(mine_->take_over(*heap_, kClass, 1, false));
    EXPECT_EQ(pagemap.of(sparse_[0]).owner(), heap_->id());
    EXPECT_TRUE(mine_->take_over(*heap_, kClass, 0, false));
    EXPECT_EQ(pagemap.of(sparse_[0]).owner(), mine_->id());
  }
  for (void* p : sparse_) send(packed({p})[0]);
  put(full_);
  drain_both();
}

TEST_F(TakeOverTest, NearlyFullSlabsAreNoSurplus) {
  const std::vector<void*> rest = take(kClass, kObjects - kObjects / 4);
  const std::vector<void*> more = take(kClass, 4 * kObjects);
  for (size_t slab = 0; slab < 4; ++slab) put({more[slab * kObjects]});
  EXPECT_EQ(heap_->surplus(kClass), Heap::Surplus::kNone);
  for (size_t i = 0; i < more.size(); ++i) {
    if (i % kObjects != 0) put({more[i]});
  }
  put(rest);
  put(full_);
  put(sparse_);
}

// Where others free most of the objects, whoever needs one may have slabs of which some are free.
TEST_F(TakeOverTest, WhatOthersFreeOthersMayHave) {
  constexpr SizeClass kSmall = class_of(128);
  constexpr unsigned kMany = geometry(kSmall).objects;
  const auto come_home = [&](const std::vector<void*>& objects) {
    for (Message* message : packed(objects)) receive(message);
  };
  // Whatever earlier tests did with the class.
  const ClassCounters& counters = heap_->counters().classes[kSmall];
  while (counters.received.get() < counters.put.get()) come_home(take(kSmall, 1));
  std::vector<void*> all = take(kSmall, 5 * kMany);
  const auto part_of = [&](size_t slab) {
    const auto begin = all.begin() + static_cast<long>(slab * kMany);
    return std::vector<void*>(begin, begin + kMany / 4);
  };
  const auto look_at_all = [&] {
    for (unsigned i = 0; i <= registry::count(); ++i) {
      put(take(class_of(48), 1));  // it is at work
      const os::Guard guard(mine_->lock());
      mine_->take_from_others(kSmall);
    }
    mine_->check();
    heap_->check();
  };
  const auto gone = [&] {
    unsigned slabs = 0;
    for (size_t slab = 0; slab < 5; ++slab) {
      slabs += pagemap.of(all[slab * kMany + kMany - 1]).owner() == mine_->id();
    }
    return slabs;
  };
  for (size_t slab = 0; slab < 3; ++slab) come_home(part_of(slab));
  EXPECT_EQ(heap_->surplus(kSmall), Heap::Surplus::kNone) << "three are none too many";
  look_at_all();
  EXPECT_EQ(gone(), 0u);
  come_home(part_of(3));
  EXPECT_EQ(heap_->surplus(kSmall), Heap::Surplus::kEighthFree);
  look_at_all();
  EXPECT_EQ(gone(), 1u) << "one went, and three are none too many again";
  EXPECT_EQ(pagemap.of(all[4 * kMany - 1]).owner(), heap_->id()) << "the next refill's stays";
  for (size_t slab = 0; slab < 5; ++slab) {
    const auto begin = all.begin() + static_cast<long>(slab * kMany);
    for (Message* message : packed({begin + (slab < 4 ? kMany / 4 : 0), begin + kMany})) {
      send(message);
    }
  }
  drain_both();
  put(full_);
  put(sparse_);
}

// Of many small objects a slab serves its thread long enough.
TEST_F(TakeOverTest, SmallObjectsAreNoSurplus) {
  constexpr SizeClass kSmall = class_of(128);
  constexpr unsigned kMany = geometry(kSmall).objects;
  free_own(kSmall);
  std::vector<void*> all = take(kSmall, 6 * kMany);
  for (size_t slab = 0; slab < 6; ++slab) {
    put({all.begin() + static_cast<long>(slab * kMany),
         all.begin() + static_cast<long>((slab + 1) * kMany) - 2});
  }
  EXPECT_EQ(heap_->surplus(kSmall), Heap::Surplus::kNone);
  for (size_t slab = 0; slab < 6; ++slab) {
    put({all.begin() + static_cast<long>((slab + 1) * kMany) - 2,
         all.begin() + static_cast<long>((slab + 1) * kMany)});
  }
  put(full_);
  put(sparse_);
}

// Real heaps, more than the outbox has buckets: every object is home after a few rounds.
TEST_F(RegistryTest, AThousandHeapsGetTheirObjectsBack) {
  std::vector<Heap*> heaps;
  std::vector<void*> objects;
  for (int i = 0; i < 1000; ++i) {
    Heap* heap = adopted();
    ASSERT_NE(heap, nullptr);
    heaps.push_back(heap);
    void* slots[8] = {};
    const os::Guard guard(heap->lock());
    ASSERT_EQ(heap->refill_from_new(class_of(48), &slots[7], 8), 8u);
    objects.insert(objects.end(), slots, slots + 8);
  }
  std::mt19937 random(13);
  std::shuffle(objects.begin(), objects.end(), random);
  auto outbox = std::make_unique<Outbox>();
  for (void* p : objects) {
    for (Message* message : packed({p})) outbox->add(slab_of(p)->owner, message);
    if (outbox->add_bytes(48, 64 << 10)) outbox->post();
  }
  outbox->post();
  for (unsigned round = 0; round < kMaxHops; ++round) {
    for (Heap* heap : heaps) {
      const os::Guard guard(heap->lock());
      heap->drain_all();
    }
  }
  unsigned long forwards = 0;
  for (Heap* heap : heaps) {
    EXPECT_EQ(heap->counters().allocated_bytes(), 0u) << heap->id();
    forwards += heap->counters().forwards.get();
    registry::abandon(heap);
  }
  EXPECT_GT(forwards, 0u);
  EXPECT_LE(forwards, objects.size() * (kMaxHops - 1));
}

TEST_F(RegistryTest, ForkInTheChildRepairsAndFrees) {
  registry::prepare_fork();
  EXPECT_FALSE(heap_->lock().try_lock());
  registry::finish_fork(true);
  EXPECT_TRUE(heap_->lock().try_lock());
  heap_->lock().unlock();
  registry::prepare_fork();
  registry::finish_fork(false);
  EXPECT_TRUE(heap_->lock().try_lock());
  heap_->lock().unlock();
}

}  // namespace
}  // namespace loft
