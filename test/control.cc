#include "control.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>

#include "os/os.h"

extern "C" {
uint64_t __real__ZN4loft2os6now_nsEv();
void __real__ZN4loft2os13pause_brieflyEv();
void __real__ZN4loft2os16wait_on_word_forEPKvjm(const void* word, uint32_t expected,
                                                uint64_t nanoseconds);
bool __real__ZN4loft2os5unmapEPvm(void* at, size_t bytes);
bool __real__ZN4loft2os7discardEPvmNS0_5ProofE(void* at, size_t bytes, loft::os::Proof proof);
void __real__ZN4loft2os12random_bytesEPvm(void* to, size_t bytes);
bool __real__ZN4loft2os21may_try_long_mappingsEv();
}

namespace loft::test {

namespace {

// Read in a relaxed order: the tests must not order what the library does not.
constinit std::atomic<uint64_t> now{uint64_t{1} << 40};
constinit std::atomic<bool> work_takes_time{false};
constinit std::atomic<bool> system_places{false};
constinit std::atomic<bool> runs{false};  // by the system's clock, so far ahead of it
constinit std::atomic<uint64_t> ahead{0};

// Who naps, until when, and while the word has this value. Sequentially consistent: naps are few,
// and only of loft's own threads.
struct Nap {
  std::atomic<const void*> word;
  std::atomic<uint32_t> expected;
  std::atomic<uint64_t> until;
};
constexpr size_t kNaps = 8;
constinit Nap naps[kNaps] = {};

uint32_t value_of(const void* word) {
  return __atomic_load_n(static_cast<const uint32_t*>(word), __ATOMIC_RELAXED);
}

Nap& lie_down(const void* word, uint32_t expected, uint64_t until) {
  for (size_t i = 0;; i = (i + 1) % kNaps) {
    const void* nobody = nullptr;
    if (naps[i].word.compare_exchange_strong(nobody, word)) {
      naps[i].expected.store(expected);
      naps[i].until.store(until);
      return naps[i];
    }
    sched_yield();
  }
}

// The child of a fork has none of the threads that nap.
[[gnu::constructor]] void forget_naps_in_children() {
  pthread_atfork(nullptr, nullptr, [] {
    for (Nap& nap : naps) nap.word.store(nullptr);
  });
}

void pass(uint64_t nanoseconds) { now.fetch_add(nanoseconds, std::memory_order_relaxed); }

// Many readings at a time: each of them would order what its caller does before with what it does
// after, on processors where an addition is a fence.
void work() {
  constexpr unsigned kReadings = 64;
  constexpr uint64_t kReading = 1000;
  thread_local unsigned readings = 0;
  if (++readings % kReadings == 0) pass(kReadings * kReading);
}

uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

}  // namespace

void advance_ns(uint64_t nanoseconds) {
  pass(nanoseconds);
  for (const Nap& nap : naps) {
    const void* const word = nap.word.load();
    if (word != nullptr) os::wake_one(word);
  }
}

bool let_work_take_time() {
  work_takes_time.store(true, std::memory_order_relaxed);
  return true;
}

void let_the_system_place() { system_places = true; }

bool naps_on(const void* word) {
  for (const Nap& nap : naps) {
    // Who has been woken, and has not noticed yet, naps no longer.
    if (nap.word.load() == word && nap.until.load() > now.load() &&
        value_of(word) == nap.expected.load()) {
      return true;
    }
  }
  return false;
}

uint64_t seed() {
  constexpr uint64_t kFixed = 0x6C6F6674;
  // The library asks before the C library is ready, too.
  uint64_t seed = kFixed;
  const auto take = [](void* to, const char* entry) {
    *static_cast<uint64_t*>(to) = std::strtoull(strchr(entry, '=') + 1, nullptr, 0);
  };
  os::visit_environment("LOFT_TEST_SEED=", take, &seed);
  return seed;
}

// The limit in time of a test.
void end_what_hangs() { alarm(900); }

namespace system {
uint64_t now_ns() { return __real__ZN4loft2os6now_nsEv(); }
void random_bytes(void* to, size_t bytes) { __real__ZN4loft2os12random_bytesEPvm(to, bytes); }
bool may_try_long_mappings() { return __real__ZN4loft2os21may_try_long_mappingsEv(); }
}  // namespace system

RealTime::RealTime() {
  ahead = now - system::now_ns();
  runs = true;
}
RealTime::~RealTime() {
  now = system::now_ns() + ahead;
  runs = false;
}

}  // namespace loft::test

using namespace loft;
using namespace loft::test;

// Under the names that the linker gives them.
extern "C" {

uint64_t __wrap__ZN4loft2os6now_nsEv() {
  if (runs.load(std::memory_order_relaxed)) {
    return system::now_ns() + ahead.load(std::memory_order_relaxed);
  }
  if (work_takes_time.load(std::memory_order_relaxed)) work();
  return now.load(std::memory_order_relaxed);
}

void __wrap__ZN4loft2os13pause_brieflyEv() {
  pass(50);
  __real__ZN4loft2os13pause_brieflyEv();
}

void __wrap__ZN4loft2os16wait_on_word_forEPKvjm(const void* word, uint32_t expected,
                                                uint64_t nanoseconds) {
  // Whoever dozes does so for real: it is no nap.
  if (nanoseconds < kMillisecond || runs.load(std::memory_order_relaxed)) {
    return __real__ZN4loft2os16wait_on_word_forEPKvjm(word, expected, nanoseconds);
  }
  const uint64_t until = now.load(std::memory_order_relaxed) + nanoseconds;
  Nap& nap = lie_down(word, expected, until);
  // In pieces, because a wake-up may come before the sleep.
  while (value_of(word) == expected && now.load(std::memory_order_relaxed) < until &&
         !runs.load(std::memory_order_relaxed)) {
    __real__ZN4loft2os16wait_on_word_forEPKvjm(word, expected, kMillisecond);
  }
  nap.until.store(0);
  nap.word.store(nullptr);
}

bool __wrap__ZN4loft2os5unmapEPvm(void* at, size_t bytes) {
  pass(1000);
  return __real__ZN4loft2os5unmapEPvm(at, bytes);
}

bool __wrap__ZN4loft2os7discardEPvmNS0_5ProofE(void* at, size_t bytes, os::Proof proof) {
  pass(1000);
  return __real__ZN4loft2os7discardEPvmNS0_5ProofE(at, bytes, proof);
}

// The system would place the heap where it has placed nothing yet, which it draws by lot. At one of
// the places that the library plans for, it lies where the bytes below say.
bool __wrap__ZN4loft2os21may_try_long_mappingsEv() {
  return system_places && system::may_try_long_mappings();
}

void __wrap__ZN4loft2os12random_bytesEPvm(void* to, size_t bytes) {
  static constinit std::atomic<uint64_t> drawn{0};
  auto* byte = static_cast<unsigned char*>(to);
  for (size_t i = 0; i < bytes; ++i) {
    const uint64_t place = drawn.fetch_add(1, std::memory_order_relaxed);
    byte[i] = static_cast<unsigned char>(mix(mix(seed()) + place));
  }
}
}
