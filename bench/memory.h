// What the programs about memory share: samples of the kernel's account of this process, in the
// order in which they were taken.
//
// VmRSS alone counts memory that was given back with MADV_FREE and not yet taken: LazyFree says how
// much. Taking a sample walks the page tables, so it is never done inside a timed part.
#ifndef LOFT_BENCH_MEMORY_H_
#define LOFT_BENCH_MEMORY_H_

#include <array>

#include "common.h"

namespace bench {

class MemoryLog {
 public:
  // Allocates nothing: an allocator that works only when called must stay idle.
  void sample(const char* label) {
    if (count_ == samples_.size()) fail("more than %zu samples", samples_.size());
    ProcFile smaps("/proc/self/smaps_rollup");
    samples_[count_++] = {label, now() - start_, smaps.field("\nRss"), smaps.field("LazyFree"),
                          smaps.field("AnonHugePages")};
  }
  std::string json() const {
    std::string text = "[";
    for (size_t i = 0; i < count_; i++) {
      const Sample& s = samples_[i];
      char line[256];
      std::snprintf(line, sizeof line,
                    "%s{\"label\": \"%s\", \"at\": %.3f, \"rss_kib\": %" PRIu64
                    ", \"lazy_free_kib\": %" PRIu64 ", \"huge_kib\": %" PRIu64 "}",
                    i == 0 ? "" : ", ", s.label, s.at, s.rss, s.lazy_free, s.huge);
      text += line;
    }
    return text + "]";
  }

 private:
  struct Sample {
    const char* label;
    double at;
    uint64_t rss;
    uint64_t lazy_free;
    uint64_t huge;
  };
  std::array<Sample, 1024> samples_;
  size_t count_ = 0;
  double start_ = now();
};

inline void sleep_ms(uint64_t ms) {
  timespec left{static_cast<time_t>(ms / 1000), static_cast<long>(ms % 1000 * 1'000'000)};
  while (nanosleep(&left, &left) != 0) {
  }
}

// The pages that objects stand on, in KiB. `object(i)` gives a pointer and a size of a page at
// most.
template <typename Object>
uint64_t pages_kib(size_t count, const Object& object) {
  constexpr uintptr_t kPage = 4096;
  Table<uintptr_t> pages(2 * count);
  uintptr_t* end = pages.begin();
  for (size_t i = 0; i < count; i++) {
    auto [p, size] = object(i);
    auto address = reinterpret_cast<uintptr_t>(p);
    *end++ = address / kPage;
    *end++ = (address + size - 1) / kPage;
  }
  std::sort(pages.begin(), end);
  return static_cast<uint64_t>(std::unique(pages.begin(), end) - pages.begin()) * (kPage / 1024);
}

}  // namespace bench

#endif  // LOFT_BENCH_MEMORY_H_
