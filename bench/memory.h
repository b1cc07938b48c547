// What the programs about memory share: samples of the kernel's account of this process, in the
// order in which they were taken, and threads that work and then sleep.
//
// VmRSS alone counts memory that was given back with MADV_FREE and not yet taken: LazyFree says how
// much. Taking a sample walks the page tables, so it is never done inside a timed part.
#ifndef LOFT_BENCH_MEMORY_H_
#define LOFT_BENCH_MEMORY_H_

#include <array>
#include <condition_variable>
#include <mutex>

#include "common.h"

namespace bench {

// One look at the account. Allocates nothing: an allocator that works only when called must stay
// idle.
struct Residence {
  uint64_t rss;  // all in KiB
  uint64_t lazy_free;
  uint64_t huge;

  static Residence now() {
    ProcFile smaps("/proc/self/smaps_rollup");
    return {smaps.field("\nRss"), smaps.field("LazyFree"), smaps.field("AnonHugePages")};
  }
};

// Ends a program under an allocator that uses little again, before it takes the machine's memory.
inline void fail_above(uint64_t limit_mib) {
  int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  char text[128] = {};
  ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  if (fd >= 0) close(fd);
  const char* second = length > 0 ? std::strchr(text, ' ') : nullptr;
  if (second == nullptr) fail("cannot read /proc/self/statm");
  auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (std::strtoull(second, nullptr, 10) * page >> 20 > limit_mib) {
    fail("more than %" PRIu64 " MiB resident", limit_mib);
  }
}

class MemoryLog {
 public:
  // The resident KiB, which are now in the log.
  uint64_t sample(const char* label) {
    if (count_ == samples_.size()) fail("more than %zu samples", samples_.size());
    samples_[count_++] = {label, now() - start_, Residence::now()};
    return samples_[count_ - 1].memory.rss;
  }
  std::string json() const {
    std::string text = "[";
    for (size_t i = 0; i < count_; i++) {
      const Sample& s = samples_[i];
      char line[256];
      std::snprintf(line, sizeof line,
                    "%s{\"label\": \"%s\", \"at\": %.3f, \"rss_kib\": %" PRIu64
                    ", \"lazy_free_kib\": %" PRIu64 ", \"huge_kib\": %" PRIu64 "}",
                    i == 0 ? "" : ", ", s.label, s.at, s.memory.rss, s.memory.lazy_free,
                    s.memory.huge);
      text += line;
    }
    return text + "]";
  }

 private:
  struct Sample {
    const char* label;
    double at;
    Residence memory;
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

// Threads that do a job each, whenever they are given one, and sleep before, between and after.
// They start with the crew, so that their stacks are there before a first sample; start them before
// the tables are filled.
class Crew {
 public:
  explicit Crew(size_t threads) : doing_(threads) {
    team_.reserve(threads);
    for (size_t i = 0; i < threads; i++) {
      team_.emplace_back([this, i] { work(i); });
    }
    wait_until_idle();
  }
  ~Crew() { dismiss(); }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // Each thread runs job(its index); returns once all of them have.
  template <typename Job>
  void run(const Job& job) {
    {
      std::lock_guard<std::mutex> guard(lock_);
      call_ = [](const void* context, size_t index) { (*static_cast<const Job*>(context))(index); };
      context_ = &job;
      number_++;
      doing_ = team_.size();
    }
    change_.notify_all();
    wait_until_idle();
  }

  // Ends the threads.
  void dismiss() {
    {
      std::lock_guard<std::mutex> guard(lock_);
      dismissed_ = true;
    }
    change_.notify_all();
    for (auto& thread : team_) thread.join();
    team_.clear();
  }

 private:
  void work(size_t index) {
    std::unique_lock<std::mutex> guard(lock_);
    for (uint64_t done = 0;;) {
      if (--doing_ == 0) change_.notify_all();
      change_.wait(guard, [&] { return dismissed_ || number_ != done; });
      if (dismissed_) return;
      done = number_;
      guard.unlock();
      call_(context_, index);
      guard.lock();
    }
  }
  void wait_until_idle() {
    std::unique_lock<std::mutex> guard(lock_);
    change_.wait(guard, [&] { return doing_ == 0; });
  }

  std::mutex lock_;
  std::condition_variable change_;
  void (*call_)(const void*, size_t) = nullptr;
  const void* context_ = nullptr;
  uint64_t number_ = 0;  // of jobs so far
  size_t doing_;         // threads that are not waiting for a job
  bool dismissed_ = false;
  std::vector<std::thread> team_;
};

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
