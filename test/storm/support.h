// What the storms share: how much to do, objects that know who they are, and how things must stand
// when everybody has gone home.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "background.h"
#include "control.h"
#include "hardened/tag.h"
#include "loft/loft.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define STORM_THREAD_SANITIZER 1
#elif __has_feature(address_sanitizer)
#define STORM_ADDRESS_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define STORM_THREAD_SANITIZER 1
#elif defined(__SANITIZE_ADDRESS__)
#define STORM_ADDRESS_SANITIZER 1
#endif

namespace storm {

#if defined(STORM_THREAD_SANITIZER)
inline constexpr unsigned kSlowdown = 4;
#elif defined(STORM_ADDRESS_SANITIZER) || defined(LOFT_DEBUG)
inline constexpr unsigned kSlowdown = 2;
#else
inline constexpr unsigned kSlowdown = 1;
#endif

inline const bool kWorkTakesTime = loft::test::let_work_take_time();

// What a thread of a storm begins its numbers with.
inline uint64_t seed_for(uint64_t thread) {
  return loft::test::seed() + (thread + 1) * 0x9E3779B97F4A7C15u;
}

// Rounds of a storm: as many as an optimised build does within seconds.
constexpr unsigned scaled(unsigned rounds) {
  return rounds < 2 * kSlowdown ? 2 : rounds / kSlowdown;
}

// The next of a stream of numbers, whose upper bits are the random ones.
inline uint64_t advance(uint64_t& random) {
  return random = random * 6364136223846793005u + 1442695040888963407u;
}

// Objects say who they are and how long, and every further word of them depends on both and on its
// place: an object handed out twice, cut short, or written to by the allocator does not pass.
// Beyond a page only some words are written, beyond a mebibyte not even in every page.
inline uint64_t word_of(uint64_t id, size_t i) { return (id + 1) * 0x9E3779B97F4A7C15u ^ i; }
constexpr size_t stride_for(size_t size) {
  return size <= 4096 ? 1 : size <= (1 << 20) ? 61 : 2053;
}

inline constexpr size_t kLeastSize = 16;

inline void stamp(void* p, uint64_t id, size_t size) {
  auto* words = static_cast<uint64_t*>(p);
  words[0] = id;
  words[1] = size;
  for (size_t i = 2; i < size / 8; i += stride_for(size)) words[i] = word_of(id, i);
}

inline uint64_t id_of(const void* p) { return static_cast<const uint64_t*>(p)[0]; }
inline size_t size_of(const void* p) { return static_cast<const uint64_t*>(p)[1]; }

// Of its first `kept` bytes, if a realloc cut it short.
inline bool intact(const void* p, uint64_t id, size_t size, size_t kept = SIZE_MAX) {
  const auto* words = static_cast<const uint64_t*>(p);
  if (words[0] != id || words[1] != size) return false;
  for (size_t i = 2; i < (kept < size ? kept : size) / 8; i += stride_for(size)) {
    if (words[i] != word_of(id, i)) return false;
  }
  return true;
}

inline void* make(uint64_t id, size_t size) {
  void* p = loft_malloc(size);
  if (p != nullptr) stamp(p, id, size);
  return p;
}

// Checks that the object is the one expected, then frees it. Returns how many faults it saw.
inline unsigned check_and_free(void* p, uint64_t id, size_t size) {
  const bool good = intact(p, id, size);
  loft_free(p);
  return good ? 0 : 1;
}

// Objects come and go until `done`, each checked: of up to 700 bytes, of thread 2 up to 60,000.
// `made` tells how many have come.
inline void come_and_go(unsigned thread, const std::atomic<bool>& done,
                        std::atomic<uint64_t>* made = nullptr) {
  uint64_t random = seed_for(thread);
  uint64_t id = uint64_t{thread} << 32;
  uint64_t first = id;
  unsigned faults = 0;
  std::deque<std::pair<void*, size_t>> mine;
  while (!done) {
    const size_t size = 16 + (advance(random) >> 33) % (thread == 2 ? 60'000 : 700);
    mine.emplace_back(make(id++, size), size);
    if (made != nullptr) made->store(id & 0xFFFFFFFF, std::memory_order_relaxed);
    if (mine.size() < 200) continue;
    faults += check_and_free(mine.front().first, first++, mine.front().second);
    mine.pop_front();
  }
  for (const auto& [p, size] : mine) faults += check_and_free(p, first++, size);
  EXPECT_EQ(faults, 0u);
}

// A one-way street: every object has a slot of its own, so nothing tells the sender how far the
// receiver is. Whatever orders the receiver's free before the sender's next use of the object is
// loft's doing alone, and the thread sanitizer sees whether it is there.
class Street {
 public:
  explicit Street(size_t objects) : slots_(new std::atomic<void*>[objects]()) {}

  void put(size_t i, void* p) { slots_[i].store(p, std::memory_order_release); }
  void* try_take(size_t i) const { return slots_[i].load(std::memory_order_acquire); }
  void* take(size_t i) const {
    for (;;) {
      if (void* p = try_take(i); p != nullptr) return p;
      sched_yield();
    }
  }

 private:
  std::unique_ptr<std::atomic<void*>[]> slots_;
};

// Runs body(0), ..., body(count - 1), each on a thread of its own, to the end.
template <class Body>
void on_threads(unsigned count, Body body) {
  std::vector<std::thread> threads;
  threads.reserve(count);
  for (unsigned i = 0; i < count; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

// Where threads rest: each until `sleepers` others have come after it, and longer than a heap is
// looked at without a refill before it counts as idle. The rest of `threads` work meanwhile.
class Rests {
 public:
  Rests(unsigned threads, unsigned sleepers) : working_(threads), sleepers_(sleepers) {}

  void rest(uint64_t milliseconds) {
    loft::test::advance_ms(milliseconds);
    std::unique_lock lock(lock_);
    const unsigned last = ++arrivals_ + sleepers_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return arrivals_ >= last || working_ <= sleepers_; });
  }

  // The calling thread does not come again.
  void leave() {
    const std::lock_guard guard(lock_);
    --working_;
    changed_.notify_all();
  }

 private:
  std::mutex lock_;
  std::condition_variable changed_;
  unsigned arrivals_ = 0;
  unsigned working_;
  const unsigned sleepers_;
};

// The processors that the test may use.
inline std::vector<int> processors() {
  cpu_set_t set;
  EXPECT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  std::vector<int> all;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) all.push_back(cpu);
  }
  return all;
}

// 0 for the caller.
inline void move_to(pid_t thread, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  // The thread may have ended meanwhile.
  if (sched_setaffinity(thread, sizeof(set), &set) != 0) {
    EXPECT_EQ(errno, ESRCH);
  }
}

inline loft_stats_t stats() {
  loft_stats_t s = {};
  s.struct_size = sizeof(s);
  EXPECT_EQ(loft_stats(&s), 0);
  return s;
}

inline uint64_t parts_of(const loft_stats_t& s) {
  return s.live_bytes + s.rounding_bytes + s.free_in_slabs_bytes + s.cached_bytes +
         s.in_flight_bytes + s.large_cached_bytes + s.free_span_bytes + s.metadata_resident_bytes +
         s.purged_charged_bytes + s.user_heap_resident_bytes + s.huge_slack_bytes;
}

// Holds at any moment, whatever runs.
inline void expect_identity(const loft_stats_t& s) {
  EXPECT_EQ(parts_of(s) - s.untouched_bytes, s.resident_bytes);
}

// Runs `work` in a process of its own, whose failures are this one's.
template <class Work>
void in_child(Work&& work) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    loft::test::end_what_hangs();
    work();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// With this thread alone left: every message has arrived. A message takes three hops at most, and
// one trim may pass a heap before another one has forwarded to it.
// The background thread may have pages in its hands, which nobody else can give back meanwhile.
inline loft_stats_t stats_at_rest() {
  loft::test::wait_for_background_thread();
  for (int hop = 0; hop < 4; ++hop) loft_malloc_trim(0);
  return stats();
}

inline bool owner_is(std::string_view name) {
  char owner[16];
  EXPECT_EQ(loft_option_get("owner", owner, sizeof(owner)), 0);
  return owner == name;
}

// Whether each thread has a cache of its own.
inline bool threads_own() { return owner_is("thread"); }

inline bool hardened_is(std::string_view mode) {
  char hardened[16];
  EXPECT_EQ(loft_option_get("hardened", hardened, sizeof(hardened)), 0);
  return hardened == mode;
}

// Any object may be a sample, which lies in no slab.
inline bool guarded() { return hardened_is("guard"); }

// Whether objects have tags, fences and guards (the option `hardened`). The usable size is then
// what was asked for.
inline bool hardened() { return !hardened_is("off"); }

// The size of the place that an object of `size` bytes has with its tag, if it has one; or more
// than kSmallMax.
inline size_t with_tag(size_t size) {
  return hardened() ? std::max(size + loft::hardened::kTagBytes, loft::hardened::kLeastPlace)
                    : size;
}

// A storm starts and ends with one thread and no object.
class Storm : public testing::Test {
 protected:
  // Nothing was lost on its way, and what is kept for each heap is at most one slab of each class
  // that the storm used: `classes` of them, their slabs of `slab` bytes at most.
  void expect_all_home(size_t classes, size_t slab = 64 << 10) const {
    const loft_stats_t s = stats_at_rest();
    EXPECT_EQ(s.batch_objects + s.objects_sent_singly, s.objects_received);
    EXPECT_EQ(s.allocated_bytes, 0u);
    EXPECT_EQ(s.live_objects, 0u);
    EXPECT_EQ(s.cached_bytes, 0u);
    EXPECT_EQ(s.in_flight_bytes, 0u);
    EXPECT_EQ(s.large_bytes, 0u);
    EXPECT_LE(s.slab_bytes, before_.slab_bytes + s.heaps * classes * slab);
    EXPECT_EQ(s.dirty_bytes, 0u);
  }

  const loft_stats_t before_ = stats_at_rest();
};

}  // namespace storm
