// snmalloc's data structures by themselves: size classes, the chunk map, the buckets of outgoing
// messages, medium slabs, the free lists of small ones; and BatchIt's ring.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <barrier>
#include <bit>
#include <map>
#include <memory>
#include <new>
#include <set>
#include <thread>
#include <vector>

#include "snmalloc/allocator.h"
#include "snmalloc/large.h"
#include "snmalloc/pool.h"
#include "storm/support.h"

namespace snmalloc {
namespace {

uintptr_t address(const void* p) { return reinterpret_cast<uintptr_t>(p); }

// 2.6: four classes to each power of two, multiples of 16.
TEST(SizeClasses, ASizeHasTheLeastClassThatHoldsIt) {
  unsigned wrong = 0;
  for (size_t bytes = 1; bytes <= kChunk; ++bytes) {
    const unsigned found = class_of_size(bytes);
    if (size_of_class(found) < bytes) ++wrong;
    if (found != 0 && size_of_class(found - 1) >= bytes) ++wrong;
  }
  EXPECT_EQ(wrong, 0u);
}

TEST(SizeClasses, HaveAnExponentAndTwoBitsOfMantissa) {
  for (unsigned each = 0; each <= kClasses; ++each) {
    const size_t size = size_of_class(each);
    EXPECT_EQ(size % 16, 0u);
    EXPECT_EQ(size % std::max<size_t>(std::bit_floor(size) / 4, 16), 0u) << size;
    if (each < 3) continue;  // below 64 bytes the steps cannot be smaller
    EXPECT_EQ(size_of_class(each + 4), 2 * size);
  }
}

// 2.4. Addresses that no process has: the map alone is touched.
TEST(ChunkMap, JumpsLeadFromAnyChunkToTheFirst) {
  constexpr uintptr_t kBase = uintptr_t{1} << (kAddressBits - 1);
  constexpr unsigned kMost = kAddressBits - 1 - Config::kChunkLog;
  const unsigned largest = storm::kSlowdown == 1 ? kMost : 16;
  for (const unsigned log : {0u, 1u, 2u, 3u, 9u, largest}) {
    const size_t chunks = size_t{1} << log;
    set_kind(kBase, ChunkKind::large(log, false));
    set_jumps(kBase, log);
    EXPECT_TRUE(kind_of(kBase).is_large());
    EXPECT_EQ(kind_of(kBase).log(), log);
    const size_t step = chunks / 4096 | 1;  // odd, so that the low bits change
    for (size_t chunk = 0; chunk < chunks; chunk += step) {
      const uintptr_t inside = kBase + chunk * kChunk + 12345;
      ASSERT_EQ(start_of_large(inside), kBase) << log << " " << chunk;
    }
    ASSERT_EQ(start_of_large(kBase + chunks * kChunk - 1), kBase);
  }
}

// The paper's example, an object of 8 chunks: L3 J0 J1 J1 J2 J2 J2 J2.
TEST(ChunkMap, HasThePapersBytes) {
  constexpr uintptr_t kBase = uintptr_t{1} << (kAddressBits - 1);
  set_jumps(kBase, 3);
  constexpr unsigned kJumps[] = {0, 1, 1, 2, 2, 2, 2};
  for (size_t i = 0; i < std::size(kJumps); ++i) {
    EXPECT_EQ(kind_of(kBase + (i + 1) * kChunk), ChunkKind::jump(kJumps[i])) << i;
  }
}

// 2.2: they lie together, so the low bits of their addresses differ, and with no more of them than
// buckets each message goes straight to its owner.
TEST(Pool, AllocatorsLieTogether) {
  constexpr unsigned kThreads = 64;
  std::vector<uintptr_t> allocators(kThreads);
  std::barrier all_have_one(kThreads);
  std::vector<std::thread> threads;
  for (uintptr_t& allocator : allocators) {
    threads.emplace_back([&] {
      const Loan loan;
      allocator = address(loan.get());
      all_have_one.arrive_and_wait();
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<uintptr_t> low;
  for (const uintptr_t allocator : allocators) low.insert((allocator >> kAllocatorLog) % kThreads);
  EXPECT_EQ(low.size(), kThreads);
}

// What snmalloc's paper says, and what the snmalloc had that BatchIt changed.
TEST(Outbox, IsThatOfThePaperOrOfBatchItsBase) {
  read_parameters();
  constexpr bool kBatchIt = Config::kBatches;
  EXPECT_EQ(parameters.outbox_bytes, kBatchIt ? uint64_t{16} << 10 : uint64_t{1} << 20);
  EXPECT_EQ(parameters.bucket_bits, kBatchIt ? 8u : 6u);
}

// Allocators one behind the other, with four buckets each (k = 2): the last four bits of their
// numbers are all that differs in their addresses (N = 4).
class Buckets : public testing::Test {
 protected:
  static constexpr unsigned kCount = 16;

  Buckets() {
    setenv("SNMALLOC_BUCKET_BITS", "2", 1);
    read_parameters();
    memory_ = static_cast<char*>(aligned_alloc(kCount * kAllocatorBytes, kCount * kAllocatorBytes));
    for (unsigned i = 0; i < kCount; ++i) {
      buckets_.emplace_back(new Outgoing::Bucket[4]());
      places_.emplace_back(new char[BatchCache::bytes_of_places()]());
      queues_.emplace_back(new RemoteQueue[kQueues]);
      new (memory_ + i * kAllocatorBytes) Allocator(
          buckets_[i].get(), reinterpret_cast<Batch*>(places_[i].get()), queues_[i].get());
      outgoing_.emplace_back(&at(i), buckets_[i].get());
      for (unsigned spare = 0; spare < 2; ++spare) spare_[i].push_back(message_of(i));
    }
  }
  ~Buckets() override { free(memory_); }

  Allocator& at(unsigned number) {
    return *std::launder(reinterpret_cast<Allocator*>(memory_ + number * kAllocatorBytes));
  }

  // An object of this allocator, which some other one has freed. Medium ones are messages each.
  // While something is on its way none is made: who allocates looks into the queue.
  uintptr_t message_of(unsigned number) {
    const uintptr_t object = address(at(number).allocate(size_of_class(kSmallClasses)));
    Message::write(object, &at(number));
    return object;
  }
  uintptr_t freed(unsigned number) {
    const uintptr_t object = message_of(number);
    owner_[object] = number;
    return object;
  }
  void add(unsigned from, uintptr_t object) { outgoing_[from].add(object, &at(owner_[object])); }

  // How many lists were sent.
  uint64_t flush(unsigned from) {
    SendCounts counts;
    outgoing_[from].flush(counts);
    return counts.exchanges.get();
  }

  // All that has come. A queue keeps its last message, so one that nobody counts is put behind.
  std::vector<uintptr_t> arrived(unsigned number) {
    RemoteQueue& queue = at(number).incoming();
    const uintptr_t last = spare_[number].back();
    spare_[number].pop_back();
    queue.put(last, last, 1);
    std::vector<uintptr_t> all;
    while (const uintptr_t message = queue.take()) {
      if (!queue.is_stub(message) && owner_.count(message) != 0) all.push_back(message);
    }
    return all;
  }
  std::vector<unsigned> owners_of(const std::vector<uintptr_t>& messages) {
    std::vector<unsigned> owners;
    for (const uintptr_t message : messages) owners.push_back(owner_[message]);
    return owners;
  }

  char* memory_ = nullptr;
  std::vector<std::unique_ptr<Outgoing::Bucket[]>> buckets_;
  std::vector<std::unique_ptr<char[]>> places_;
  std::vector<std::unique_ptr<RemoteQueue[]>> queues_;
  std::vector<Outgoing> outgoing_;
  std::vector<uintptr_t> spare_[kCount];
  std::map<uintptr_t, unsigned> owner_;
};

// The example of the text that explains snmalloc (1.2).
TEST_F(Buckets, NinePassesOnByTheNextTwoBits) {
  using Owners = std::vector<unsigned>;
  for (const unsigned owner : {9u, 5u, 1u, 5u, 2u}) add(0, freed(owner));
  add(9, freed(7));
  EXPECT_EQ(flush(0), 2u) << "bucket 1 and bucket 2";
  EXPECT_EQ(owners_of(arrived(2)), Owners{2});
  const std::vector<uintptr_t> batch = arrived(9);
  EXPECT_EQ(owners_of(batch), (Owners{9, 5, 1, 5}));
  for (const uintptr_t message : batch) {
    if (owner_[message] != 9) add(9, message);
  }
  EXPECT_EQ(flush(9), 3u) << "to 7 in the first round, to 1 and to 5 in the next";
  EXPECT_EQ(owners_of(arrived(7)), Owners{7});
  EXPECT_EQ(owners_of(arrived(1)), Owners{1});
  EXPECT_EQ(owners_of(arrived(5)), (Owners{5, 5}));
}

// 2.2: at most N/k of them, rounded up.
TEST_F(Buckets, NoMessageTakesMoreThanTwoHops) {
  uint64_t random = 1;
  for (unsigned i = 0; i < 2000; ++i) {
    storm::advance(random);
    const auto from = static_cast<unsigned>(random >> 33) % kCount;
    const auto owner = (from + 1 + static_cast<unsigned>(random >> 40) % (kCount - 1)) % kCount;
    add(from, freed(owner));
  }
  size_t home = 0;
  for (unsigned hop = 1; hop <= 2; ++hop) {
    for (unsigned from = 0; from < kCount; ++from) flush(from);
    for (unsigned number = 0; number < kCount; ++number) {
      for (const uintptr_t message : arrived(number)) {
        if (owner_[message] == number) {
          ++home;
        } else {
          EXPECT_EQ(owner_[message] % 4, number % 4) << "the first two bits are right";
          add(number, message);
        }
      }
    }
    EXPECT_EQ(home == 2000, hop == 2) << home;
  }
}

// The authors' code for Linux gave nothing back; 2.5 read word by word keeps the first page alone.
TEST(Large, ABlockKeepsItsPagesUnlessItIsDecommitted) {
  read_parameters();
  EXPECT_FALSE(parameters.decommits);
  SwapCounts swaps;
  for (const bool decommits : {false, true}) {
    parameters.decommits = decommits;
    auto* const object = static_cast<char*>(allocate_large(kChunk, 2 * kChunk, swaps));
    ASSERT_NE(object, nullptr);
    object[kChunk] = 7;
    release_large(object, swaps);
    auto* const next = static_cast<char*>(allocate_large(kChunk, 2 * kChunk, swaps));
    ASSERT_EQ(next, object);
    EXPECT_EQ(next[kChunk], decommits ? 0 : 7);
    EXPECT_EQ(zero_bytes_of_large(next), decommits ? 2 * kChunk : 0);
    release_large(next, swaps);
  }
}

// 2.7.
TEST(Medium, AStackOfTheFreeOnesServesASlab) {
  MediumHeap heap(nullptr);
  SwapCounts swaps;
  const size_t size = size_of_class(kSmallClasses);
  const size_t count = MediumSlab::count(size);
  std::set<uintptr_t> objects;
  for (size_t i = 0; i < count; ++i) objects.insert(address(heap.allocate(kSmallClasses, swaps)));
  const uintptr_t chunk = chunk_of(*objects.begin());
  const auto* const slab = reinterpret_cast<const MediumSlab*>(chunk);
  EXPECT_EQ(objects.size(), count);
  EXPECT_EQ(*objects.rbegin(), chunk + kChunk - size) << "they abut the chunk's end";
  EXPECT_EQ(*objects.begin(), chunk + kChunk - count * size);
  EXPECT_EQ(slab->free, 0u);
  EXPECT_EQ(slab->head, count);
  const uintptr_t first = *objects.begin();
  const uintptr_t last = *objects.rbegin();
  heap.take_back(first, swaps);
  heap.take_back(last, swaps);
  EXPECT_EQ(slab->free, 2u);
  EXPECT_EQ(address(heap.allocate(kSmallClasses, swaps)), last) << "the last one first";
  EXPECT_EQ(address(heap.allocate(kSmallClasses, swaps)), first);
  EXPECT_NE(chunk_of(address(heap.allocate(kSmallClasses, swaps))), chunk);
}

// What becomes empty goes, and the next one, of whatever class, gets it. Only under
// SNMALLOC_DECOMMIT=on, where that is a system call each time, one stays.
TEST(Medium, AnEmptySlabGoes) {
  read_parameters();
  SwapCounts swaps;
  for (const bool decommits : {false, true}) {
    parameters.decommits = decommits;
    MediumHeap heap(nullptr);
    const uintptr_t object = address(heap.allocate(kSmallClasses, swaps));
    heap.take_back(object, swaps);
    const uintptr_t other = address(heap.allocate(kSmallClasses + 1, swaps));
    EXPECT_EQ(chunk_of(other) == chunk_of(object), !decommits);
  }
}

class Small : public testing::Test {
 protected:
  static constexpr unsigned kClass = class_of_size(64);

  Small() { read_parameters(); }  // the key of the links
  uintptr_t make() { return address(heap_.allocate(kClass, swaps_)); }
  static const Superslab& superslab(uintptr_t object) {
    return *reinterpret_cast<const Superslab*>(chunk_of(object));
  }
  static const SlabMeta& meta(uintptr_t object) {
    return superslab(object).meta[object % kChunk >> kSlabLog];
  }

  SmallHeap heap_{nullptr};
  SwapCounts swaps_;
};

// 2.8: the lowest bit says which.
TEST_F(Small, AListEndsInABumpPointerOrInAllOnes) {
  const uintptr_t first = make();
  const uintptr_t slab = slab_of(first);
  EXPECT_EQ(superslab(first).used, 1u) << "the short slab alone";
  const uintptr_t second = make();
  const uintptr_t third = make();
  EXPECT_EQ(second, first + 64);
  const unsigned bump = SmallHeap::offset_of(third + 64) | kBump;
  EXPECT_EQ(meta(first).head, bump) << "no list, so no object was written to";
  heap_.take_back(second, swaps_);
  EXPECT_EQ(meta(first).head, SmallHeap::offset_of(second));
  EXPECT_EQ(Links::next(slab, SmallHeap::offset_of(second)), bump);
  EXPECT_EQ(make(), second);
  EXPECT_EQ(meta(first).head, bump);

  uintptr_t last = third;
  while (meta(first).head != kFull) {
    const uintptr_t object = make();
    ASSERT_EQ(object, last + 64);
    last = object;
  }
  EXPECT_EQ(last + 64, slab + kSlab);
  EXPECT_EQ(meta(first).used, (slab + kSlab - first) / 64);
  heap_.take_back(second, swaps_);
  EXPECT_EQ(meta(first).link, SmallHeap::offset_of(second)) << "it has the node of the slabs' list";
  EXPECT_EQ(Links::next(slab, SmallHeap::offset_of(second)), kFull);
  EXPECT_EQ(make(), second);
  EXPECT_EQ(superslab(make()).used, 3u) << "two for a whole slab";
}

TEST_F(Small, AnEmptySuperslabGoes) {
  for (const bool decommits : {false, true}) {
    parameters.decommits = decommits;
    heap_.take_back(make(), swaps_);
    const uint64_t before = swaps_.succeeded.get();
    heap_.take_back(make(), swaps_);
    EXPECT_EQ(swaps_.succeeded.get() - before, decommits ? 0u : 2u) << "from the stack and back";
  }
}

// BatchIt 3.2.
TEST(Rings, HaveBothEndsAndTheCountInOneWord) {
  static_assert(sizeof(Ring) == sizeof(uint64_t));
  constexpr uintptr_t kLow = 0x7fff12340000;
  constexpr uintptr_t kHigh = kLow + kSlab - 16;
  for (const unsigned count : {1u, 2u, 4096u}) {
    for (const auto& [tail, head] : {std::pair{kLow, kHigh}, {kHigh, kLow}, {kLow, kLow}}) {
      const Ring ring(Ring(tail, head, count).word());
      EXPECT_EQ(ring.head(tail), head);
      EXPECT_EQ(ring.count(), count);
    }
  }
}

// A batch grows at its head; the owner joins it to the slab's list and reads only its ends.
TEST_F(Small, ARingIsJoinedWithoutAWalk) {
  std::vector<uintptr_t> objects;
  for (unsigned i = 0; i < 6; ++i) objects.push_back(make());
  heap_.take_back(objects[5], swaps_);
  const std::unique_ptr<char[]> places(new char[BatchCache::bytes_of_places()]());
  BatchCache cache(reinterpret_cast<Batch*>(places.get()));
  for (const unsigned i : {1u, 4u, 2u, 3u}) EXPECT_EQ(cache.add(objects[i]).count, 0u);
  std::vector<Batch> sent;
  cache.empty([&](const Batch& batch) { sent.push_back(batch); });
  ASSERT_EQ(sent.size(), 1u);
  Links::set_ring(sent[0].tail, Ring(sent[0].tail, sent[0].head, sent[0].count));
  // The message is its tail alone.
  const Ring ring = Links::ring(objects[1]);
  EXPECT_EQ(ring.head(objects[1]), objects[3]);
  EXPECT_EQ(ring.count(), 4u);

  const uint64_t middle = word_at(objects[4]);
  word_at(objects[4]) = ~uint64_t{0};
  heap_.take_back(ring.head(objects[1]), objects[1], ring.count(), swaps_);
  word_at(objects[4]) = middle;
  EXPECT_EQ(meta(objects[0]).used, 1u);
  for (const unsigned i : {3u, 2u, 4u, 1u, 5u}) EXPECT_EQ(make(), objects[i]) << i;
}

// BatchIt 5.2, and snmalloc's issues 724 and 728: how much a call takes in, and from where. One
// allocator, whose messages are single objects of its own.
class Looks : public testing::Test {
 protected:
  static constexpr size_t kSmall = 64;
  static constexpr size_t kOther = 512;

  void open(bool adapts, bool by_class) {
    read_parameters();
    parameters.adapts = adapts;
    parameters.by_class = by_class;
    buckets_.reset(new char[Outgoing::bytes_of_buckets()]());
    places_.reset(new char[BatchCache::bytes_of_places()]());
    memory_.reset(static_cast<char*>(aligned_alloc(kAllocatorBytes, kAllocatorBytes)));
    allocator_ = new (memory_.get()) Allocator(reinterpret_cast<Outgoing::Bucket*>(buckets_.get()),
                                               reinterpret_cast<Batch*>(places_.get()), queues_);
  }

  std::vector<uintptr_t> make(size_t count, size_t bytes) {
    std::vector<uintptr_t> objects;
    for (size_t i = 0; i < count; ++i) objects.push_back(address(allocator_->allocate(bytes)));
    return objects;
  }
  // Until the next one of its size would cost a slab.
  std::vector<uintptr_t> make_full_slab(size_t bytes) {
    std::vector<uintptr_t> objects = make(1, bytes);
    const auto* const slab = reinterpret_cast<const Superslab*>(chunk_of(objects[0]));
    while (slab->meta[objects[0] % kChunk >> kSlabLog].head != kFull) {
      objects.push_back(make(1, bytes)[0]);
    }
    return objects;
  }
  // A queue keeps its last message: `count` of these objects can be taken in.
  void free_elsewhere(const std::vector<uintptr_t>& objects, size_t count) {
    SendCounts counts;
    for (size_t i = 0; i < count + 1; ++i) {
      Message::write(objects[i], allocator_);
      send({objects[i], objects[i], 1}, counts);
    }
  }
  uint64_t received() const { return allocator_->tally().received.get(); }
  uint64_t longest() const {
    engine::Counts counts;
    allocator_->tally().looks.add_to(counts);
    return counts.longest_look;
  }

  struct Freed {
    void operator()(char* p) const { free(p); }
  };
  RemoteQueue queues_[kQueues];
  std::unique_ptr<char[]> buckets_;
  std::unique_ptr<char[]> places_;
  std::unique_ptr<char, Freed> memory_;
  Allocator* allocator_ = nullptr;
};

// One message a look, then two, then three: a thousand have come in after six hundred looks.
TEST_F(Looks, ABudgetThatAdaptsSpreadsABurst) {
  if (!Config::kBatches) GTEST_SKIP();
  open(true, false);
  make(1, kOther);
  free_elsewhere(make(1001, kSmall), 1000);
  uint64_t before = 0;
  uint64_t most = 0;
  unsigned looks = 0;
  for (; before != 1000 && looks != 2000; ++looks) {
    // There is an object at hand: the next call frees it.
    const uintptr_t object = make(1, kOther)[0];
    allocator_->release(reinterpret_cast<void*>(object));
    most = std::max(most, received() - before);
    before = received();
  }
  EXPECT_EQ(received(), 1000u);
  EXPECT_EQ(most, 6u) << "of two looks";
  EXPECT_EQ(longest(), 3u);
  EXPECT_EQ(looks, 295u) << "pairs of looks";

  free_elsewhere(make(1001, kSmall), 1000);
  make_full_slab(kOther);
  EXPECT_LT(received(), 1500u);
  make(1, kOther);
  EXPECT_EQ(received(), 2001u) << "it had no object at hand, and none came";
}

TEST_F(Looks, AClassTakesInItsOwnMessages) {
  if (!Config::kBatches) GTEST_SKIP();
  open(false, true);
  const std::vector<uintptr_t> small = make_full_slab(kSmall);
  const std::vector<uintptr_t> other = make(12, kOther);
  free_elsewhere(small, 10);
  free_elsewhere(other, 10);
  make(1, kOther);
  EXPECT_EQ(received(), 0u) << "it had an object at hand";
  make(1, kSmall);
  EXPECT_EQ(received(), 10u);
  make(9, kSmall);
  EXPECT_EQ(received(), 10u);
}

// 728: "when we are about to use the backend".
TEST_F(Looks, AChunkCostsAllMessages) {
  if (!Config::kBatches) GTEST_SKIP();
  open(false, true);
  free_elsewhere(make(12, kOther), 10);
  for (unsigned slab = 0; slab < kSlabs - 2; ++slab) {
    make_full_slab(kSmall);
    EXPECT_EQ(received(), 0u) << slab;
  }
  make_full_slab(kSmall);  // the last slab of the chunk, which the other class does not have
  make(1, kSmall);
  EXPECT_EQ(received(), 10u);
}

TEST_F(Looks, TheirLengthsAreCountedInSteps) {
  open(false, false);
  uint64_t least = 0;
  for (unsigned entry = 0; entry < 20; ++entry) {
    EXPECT_GT(engine::Looks::least_of(entry), least);
    least = engine::Looks::least_of(entry);
    EXPECT_EQ(engine::Looks::entry_of(least), entry);
    if (entry != 0) {
      EXPECT_EQ(engine::Looks::entry_of(least - 1), entry - 1);
    }
  }
  EXPECT_EQ(longest(), 0u);
}

}  // namespace
}  // namespace snmalloc
