// How long single calls of malloc and free take, up to the slowest in a hundred thousand.
//
// Source: tail latency, which the suites leave out and users of interactive programs ask for. Each
// thread replaces random objects of a table that all share, so with two threads half of what is
// freed was allocated by the other. Every call is timed by itself with clock_gettime, whose own
// cost, the median of empty intervals, is in the result and not subtracted. The histogram has
// thirty-two steps to each power of two: its error is below four per cent. An operation is one
// object; the throughput is that of a program that looks at the clock all the time.
#include "common.h"

namespace {

class Histogram {
 public:
  void add(uint64_t ns) {
    counts_[bucket(ns)]++;
    total_++;
    most_ = std::max(most_, ns);
  }
  void merge(const Histogram& other) {
    for (size_t i = 0; i < kBuckets; i++) counts_[i] += other.counts_[i];
    total_ += other.total_;
    most_ = std::max(most_, other.most_);
  }
  // The time that no more than this part of the calls exceeds.
  uint64_t quantile(double part) const {
    auto rank = static_cast<uint64_t>(part * static_cast<double>(total_));
    uint64_t seen = 0;
    for (size_t i = 0; i < kBuckets; i++) {
      seen += counts_[i];
      if (seen > rank) return std::min(upper(i), most_);
    }
    return most_;
  }
  uint64_t total() const { return total_; }
  std::string json() const {
    char text[256];
    std::snprintf(text, sizeof text,
                  "{\"p50\": %" PRIu64 ", \"p99\": %" PRIu64 ", \"p99.9\": %" PRIu64
                  ", \"p99.99\": %" PRIu64 ", \"p99.999\": %" PRIu64 ", \"max\": %" PRIu64 "}",
                  quantile(0.5), quantile(0.99), quantile(0.999), quantile(0.9999),
                  quantile(0.99999), most_);
    return text;
  }

 private:
  static constexpr unsigned kStepBits = 5;
  static constexpr size_t kBuckets = size_t{64 - kStepBits + 1} << kStepBits;

  // Exact below 2^kStepBits; above, the leading kStepBits + 1 bits.
  static size_t bucket(uint64_t ns) {
    if (ns >> kStepBits == 0) return static_cast<size_t>(ns);
    unsigned shift = 63 - static_cast<unsigned>(__builtin_clzll(ns)) - kStepBits;
    return (size_t{shift} << kStepBits) + static_cast<size_t>(ns >> shift);
  }
  static uint64_t upper(size_t bucket) {
    if (bucket >> kStepBits <= 1) return bucket;
    size_t shift = (bucket >> kStepBits) - 1;
    uint64_t leading = bucket - (shift << kStepBits);
    return ((leading + 1) << shift) - 1;
  }

  uint64_t counts_[kBuckets] = {};
  uint64_t total_ = 0;
  uint64_t most_ = 0;
};

uint64_t clock_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t threads = arguments.number("threads", 2, 1, 1000);
  uint64_t rounds = arguments.number("rounds", 2'000'000);
  uint64_t slots = arguments.number("slots", 20'000, 1, 100'000'000);
  auto min = static_cast<uint32_t>(arguments.number("min", 16, 16, 1 << 20));
  auto max = static_cast<uint32_t>(arguments.number("max", 1024, min, 1 << 20));
  arguments.finish();

  bench::Team team;
  bench::Table<std::atomic<uint64_t*>> table(slots);
  // Three each: malloc, free, and nothing.
  bench::Table<Histogram> histograms(3 * threads);
  double seconds = team.run(threads, [&](size_t index) {
    Histogram* mine = &histograms[3 * index];
    bench::Random random(index + 1);
    for (uint64_t i = 0; i < rounds; i++) {
      uint32_t size = random.between(min, max);
      uint32_t at = random.below(static_cast<uint32_t>(slots));
      uint64_t before = clock_ns();
      void* fresh = bench::allocate(size);
      uint64_t after = clock_ns();
      mine[0].add(after - before);
      auto* p = static_cast<uint64_t*>(fresh);
      *p = at;
      p = table[at].exchange(p);
      if (p == nullptr) continue;
      if (p == fresh || *p != at) bench::fail("the object in slot %u was overwritten", at);
      before = clock_ns();
      bench::release(p);
      after = clock_ns();
      mine[1].add(after - before);
      before = clock_ns();
      mine[2].add(clock_ns() - before);
    }
  });
  for (uint64_t i = 1; i < threads; i++) {
    for (uint64_t kind = 0; kind < 3; kind++) histograms[kind].merge(histograms[3 * i + kind]);
  }
  uint64_t left = 0;
  for (uint64_t at = 0; at < slots; at++) {
    uint64_t* p = table[at].load();
    if (p == nullptr) continue;
    if (*p != at) bench::fail("the object in slot %" PRIu64 " was overwritten", at);
    bench::release(p);
    left++;
  }
  if (histograms[0].total() != threads * rounds ||
      histograms[1].total() + left != threads * rounds) {
    bench::fail("%" PRIu64 " objects allocated, %" PRIu64 " freed", histograms[0].total(),
                histograms[1].total() + left);
  }
  bench::Result("latency", seconds, threads * rounds, team)
      .live(slots * (min + max) / 2)
      .json("malloc_ns", histograms[0].json())
      .json("free_ns", histograms[1].json())
      .json("clock_ns", histograms[2].json())
      .print();
}
