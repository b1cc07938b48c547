// Threads that each replace the objects of a ring in bursts, and hand lists of others on to the
// next thread, which frees them.
//
// Source: rpmalloc-benchmark (M. Jansson), which is rptest in mimalloc-bench: a ring of 1000
// objects a thread, sizes of 8 to 16 000 bytes that are equally likely, of which small ones are
// likelier by a linear or by an exponential law (--sizes), bursts of 100, and every second one
// freed by another thread (--cross). A list is an object, too. A fixed amount of work, not of time.
#include <utility>

#include "common.h"

namespace {

constexpr uint64_t kStamp = 0x5EED;
constexpr uint64_t kAhead = 16;  // lists

struct Parcel {
  Parcel* next;
  uint64_t count;
  uint64_t* objects[1];
};

// One thread pushes, one takes all.
class Inbox {
 public:
  bool full() const { return length_.load(std::memory_order_relaxed) >= kAhead; }
  void push(Parcel* parcel) {
    length_.fetch_add(1, std::memory_order_relaxed);
    parcel->next = top_.load(std::memory_order_relaxed);
    // Release: pairs with take_all, whose caller reads the parcel.
    while (!top_.compare_exchange_weak(parcel->next, parcel, std::memory_order_release,
                                       std::memory_order_relaxed)) {
    }
  }
  Parcel* take_all() { return top_.exchange(nullptr, std::memory_order_acquire); }
  // Only how long a thread waits depends on it: relaxed.
  void unpacked() { length_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  alignas(128) std::atomic<Parcel*> top_;
  std::atomic<uint64_t> length_;
};

enum class Sizes { kEven, kLinear, kExponential };

uint32_t draw(bench::Random& random, Sizes sizes, uint32_t range) {
  switch (sizes) {
    case Sizes::kEven:
      return random.below(range);
    case Sizes::kLinear:
      return std::min(random.below(range), random.below(range));
    case Sizes::kExponential:
      break;
  }
  // Each eighth of the range is half as likely as the one before.
  auto eighth = static_cast<uint32_t>(__builtin_ctz(random.next() | 1u << 7));
  return (eighth * range + random.below(range)) / 8;
}

void release(uint64_t* p) {
  if (*p != kStamp) bench::fail("an object was overwritten");
  *p = 0;
  bench::release(p);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t threads = arguments.number("threads", 4, 1, 1000);
  uint64_t loops = arguments.number("loops", 2000);
  uint64_t ring = arguments.number("ring", 1000, 1, 1 << 24);
  uint64_t burst = arguments.number("burst", 100, 1, ring);
  uint64_t cross = arguments.number("cross", 2);
  auto min = static_cast<uint32_t>(arguments.number("min", 8, 8, 1 << 20));
  auto max = static_cast<uint32_t>(arguments.number("max", 16'000, min, 1 << 20));
  std::string word = arguments.word("sizes", "linear");
  arguments.finish();
  Sizes sizes = word == "even"     ? Sizes::kEven
                : word == "linear" ? Sizes::kLinear
                                   : Sizes::kExponential;
  if (sizes == Sizes::kExponential && word != "exp") bench::fail("--sizes is even, linear or exp");

  bench::Team team;
  bench::Table<uint64_t*> tables(threads * ring);
  bench::Table<Inbox> inboxes(threads);
  std::atomic<uint64_t> finished{0};
  std::atomic<uint64_t> freed{0};
  double seconds = team.run(threads, [&](size_t index) {
    bench::Random random(index + 1);
    uint64_t** table = &tables[index * ring];
    uint64_t count = 0;
    auto make = [&] {
      uint32_t size = min + draw(random, sizes, max - min + 1);
      auto* p = static_cast<uint64_t*>(bench::allocate(size));
      *p = kStamp;
      return p;
    };
    auto unpack = [&] {
      for (Parcel* parcel = inboxes[index].take_all(); parcel != nullptr;) {
        for (uint64_t i = 0; i < parcel->count; i++) release(parcel->objects[i]);
        count += parcel->count;
        inboxes[index].unpacked();
        bench::release(std::exchange(parcel, parcel->next));
      }
    };
    uint64_t at = 0;
    for (uint64_t loop = 0; loop < loops; loop++) {
      for (uint64_t i = 0; i < burst; i++, at = at + 1 < ring ? at + 1 : 0) {
        if (table[at] != nullptr) {
          release(table[at]);
          count++;
        }
        table[at] = make();
      }
      if (loop % cross != 0) continue;
      size_t bytes = sizeof(Parcel) + burst * sizeof(uint64_t*);
      auto* parcel = static_cast<Parcel*>(bench::allocate(bytes));
      parcel->count = burst;
      for (uint64_t i = 0; i < burst; i++) parcel->objects[i] = make();
      Inbox& next = inboxes[(index + 1) % threads];
      while (next.full()) {
        unpack();
        std::this_thread::yield();
      }
      next.push(parcel);
      unpack();
    }
    // The thread before this one may still wait for it, or push. Acquire and release: what was
    // pushed before the last one finished is seen.
    finished.fetch_add(1, std::memory_order_release);
    while (finished.load(std::memory_order_acquire) != threads) {
      unpack();
      std::this_thread::yield();
    }
    unpack();
    for (uint64_t i = 0; i < ring; i++) {
      if (table[i] == nullptr) continue;
      release(table[i]);
      count++;
    }
    freed.fetch_add(count);
  });
  uint64_t made = threads * burst * (loops + (loops + cross - 1) / cross);
  if (freed != made) bench::fail("%" PRIu64 " objects freed of %" PRIu64, freed.load(), made);
  bench::Result("rptest", seconds, freed, team).print();
}
