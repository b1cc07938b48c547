// What the benchmark programs share: arguments, pinned threads, a clock, random numbers and the one
// line of JSON that each prints.
//
// Every program is one workload that calls plain malloc and free; LD_PRELOAD chooses the allocator.
// It counts and checks what it did, and ends with a non-zero code and one line on stderr when
// something was lost or damaged, so that a broken allocator (or a broken benchmark) has no time to
// show. Tables of pointers are mapped, not allocated, so that only the workload is charged to the
// allocator.
#ifndef LOFT_BENCH_COMMON_H_
#define LOFT_BENCH_COMMON_H_

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace bench {

[[noreturn]] __attribute__((format(printf, 1, 2))) inline void fail(const char* format, ...) {
  std::fprintf(stderr, "%s: ", program_invocation_short_name);
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
  std::fputc('\n', stderr);
  // Other threads may still be at work: no destructors.
  _exit(1);
}

inline double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

inline double cpu_time(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}
inline double thread_cpu_time() { return cpu_time(CLOCK_THREAD_CPUTIME_ID); }
inline double process_cpu_time() { return cpu_time(CLOCK_PROCESS_CPUTIME_ID); }

// Keeps the compiler from removing an allocation or moving work across.
inline void escape(void* p) { asm volatile("" : : "g"(p) : "memory"); }

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// malloc whose failure ends the program.
inline void* allocate(size_t size) {
  void* p = std::malloc(size);
  if (p == nullptr) fail("malloc(%zu) failed", size);
  escape(p);
  return p;
}

inline void release(void* p) {
  escape(p);
  std::free(p);
}

// xorshift64*: a few cycles a number, so that the generator does not hide the allocator.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 0x1234567u) {}
  uint32_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return static_cast<uint32_t>((state_ * 0x2545F4914F6CDD1Du) >> 32);
  }
  // Uniform in [0, bound), by multiplication rather than division.
  uint32_t below(uint32_t bound) {
    return static_cast<uint32_t>((static_cast<uint64_t>(next()) * bound) >> 32);
  }
  uint32_t between(uint32_t low, uint32_t high) { return low + below(high - low + 1); }

 private:
  uint64_t state_;
};

// The most that tables held at a time; the results name it, since it is no merit or fault of the
// allocator.
struct TableBytes {
  static inline std::atomic<size_t> now{0};
  static inline std::atomic<size_t> peak{0};
  static void add(size_t bytes) {
    size_t sum = now.fetch_add(bytes) + bytes;
    size_t seen = peak.load();
    while (seen < sum && !peak.compare_exchange_weak(seen, sum)) {
    }
  }
};

// Zeroed memory that does not come from the allocator under test.
template <typename T>
class Table {
 public:
  explicit Table(size_t count) : count_(count) {
    void* p = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (p == MAP_FAILED) fail("cannot map a table of %zu entries", count);
    data_ = static_cast<T*>(p);
    TableBytes::add(count * sizeof(T));
  }
  ~Table() {
    munmap(data_, count_ * sizeof(T));
    TableBytes::now.fetch_sub(count_ * sizeof(T));
  }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  T& operator[](size_t i) { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + count_; }
  size_t size() const { return count_; }

 private:
  T* data_;
  size_t count_;
};

// --name=value arguments; a name that nobody asked for is an error.
class Arguments {
 public:
  Arguments(int argc, char** argv) : given_(argv + 1, argv + argc), used_(given_.size()) {}

  uint64_t number(const char* name, uint64_t default_value, uint64_t low = 1,
                  uint64_t high = UINT64_MAX) {
    const char* text = find(name);
    if (text == nullptr) return default_value;
    char* end = nullptr;
    uint64_t value = std::strtoull(text, &end, 10);
    if (end == text || *end != '\0' || *text == '-') fail("--%s: not a number: %s", name, text);
    if (value < low || value > high) {
      fail("--%s: %s is not within %" PRIu64 "..%" PRIu64, name, text, low, high);
    }
    return value;
  }
  std::string word(const char* name, const char* default_value) {
    const char* text = find(name);
    return text == nullptr ? default_value : text;
  }
  void finish() {
    for (size_t i = 0; i < given_.size(); i++) {
      if (!used_[i]) fail("unknown argument %s", given_[i]);
    }
  }

 private:
  const char* find(const char* name) {
    size_t length = std::strlen(name);
    const char* text = nullptr;
    for (size_t i = 0; i < given_.size(); i++) {
      const char* a = given_[i];
      if (std::strncmp(a, "--", 2) == 0 && std::strncmp(a + 2, name, length) == 0 &&
          a[2 + length] == '=') {
        used_[i] = true;
        text = a + 3 + length;
      }
    }
    return text;
  }

  std::vector<const char*> given_;
  std::vector<bool> used_;
};

// The CPUs that this process may run on, in order.
inline std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) fail("sched_getaffinity failed");
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

inline void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) fail("cannot pin a thread to CPU %d", cpu);
}

// Threads that start together, each pinned to the CPU of its index (modulo the number of CPUs), and
// the time from that start to the end of the last one.
class Team {
 public:
  Team() : cpus_(allowed_cpus()) {}

  // True when every thread of `threads` has a CPU of its own, so that spinning is harmless.
  bool fits(size_t threads) const { return threads <= cpus_.size(); }
  int cpu_of(size_t index) const { return cpus_[index % cpus_.size()]; }

  template <typename Body>
  double run(size_t threads, const Body& body) {
    return run(threads, body, [](size_t) {});
  }
  // With what each thread does first, outside the time.
  template <typename Body, typename Prepare>
  double run(size_t threads, const Body& body, const Prepare& prepare) {
    ran_on_.assign(threads, -1);
    migrated_.assign(threads, 0);
    shares_.assign(threads, 0.0);
    std::atomic<size_t> ready{0};
    std::atomic<bool> go{false};
    std::vector<std::thread> team;
    team.reserve(threads);
    std::vector<double> ends(threads);
    for (size_t i = 0; i < threads; i++) {
      team.emplace_back([&, i] {
        pin(cpu_of(i));
        prepare(i);
        ready.fetch_add(1);
        while (!go.load(std::memory_order_acquire)) std::this_thread::yield();
        double own_cpu_start = thread_cpu_time();
        double start = now();
        int cpu = sched_getcpu();
        body(i);
        ends[i] = now();
        double elapsed = ends[i] - start;
        double own_cpu = thread_cpu_time() - own_cpu_start;
        shares_[i] = elapsed > 0 ? own_cpu / elapsed : 1.0;
        ran_on_[i] = cpu;
        migrated_[i] = sched_getcpu() != cpu;
      });
    }
    while (ready.load() != threads) std::this_thread::yield();
    double start = now();
    double cpu_start = process_cpu_time();
    go.store(true, std::memory_order_release);
    for (auto& thread : team) thread.join();
    double last = start;
    for (double end : ends) last = end > last ? end : last;
    cpu_seconds_ = process_cpu_time() - cpu_start;
    return last - start;
  }

  // Runs a single-threaded workload where it is, pinned like a team of one.
  template <typename Body>
  double run_here(const Body& body) {
    pin(cpu_of(0));
    double cpu_start = process_cpu_time();
    double own_cpu_start = thread_cpu_time();
    double start = now();
    int cpu = sched_getcpu();
    body();
    double elapsed = now() - start;
    double own_cpu = thread_cpu_time() - own_cpu_start;
    ran_on_.assign(1, cpu);
    migrated_.assign(1, sched_getcpu() != cpu);
    cpu_seconds_ = process_cpu_time() - cpu_start;
    shares_.assign(1, elapsed > 0 ? own_cpu / elapsed : 1.0);
    return elapsed;
  }

  const std::vector<int>& ran_on() const { return ran_on_; }
  // CPU time of the process, with whatever threads the workload or the allocator starts besides:
  // where there are no counters it stands for cycles, and other programs disturb it less than the
  // elapsed time.
  double cpu_seconds() const { return cpu_seconds_; }
  bool migrated() const {
    for (char m : migrated_) {
      if (m) return true;
    }
    return false;
  }
  // The smallest part of its time that a thread really had a CPU: well below 1 for threads that
  // spin means that something else ran there too.
  double least_cpu_share() const {
    double least = 1.0;
    for (double s : shares_) least = s < least ? s : least;
    return least;
  }

 private:
  std::vector<int> cpus_;
  std::vector<int> ran_on_;
  std::vector<char> migrated_;
  std::vector<double> shares_;
  double cpu_seconds_ = 0;
};

// A file below /proc, read without the allocator under test; empty if that fails.
class ProcFile {
 public:
  explicit ProcFile(const char* path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? 0 : read(fd, text_, sizeof text_ - 1);
    if (fd >= 0) close(fd);
    text_[length > 0 ? length : 0] = '\0';
  }
  // The number after "field:", 0 if there is none.
  uint64_t field(const char* name) const {
    const char* line = std::strstr(text_, name);
    return line == nullptr ? 0 : std::strtoull(line + std::strlen(name) + 1, nullptr, 10);
  }

 private:
  char text_[8192];
};

// In KiB. Read from there because ru_maxrss is inherited from the process that spawned this one.
inline uint64_t status_kib(const char* field) { return ProcFile("/proc/self/status").field(field); }

// The result line. An operation is one object allocated and freed unless the program says else.
class Result {
 public:
  Result(const char* name, double seconds, uint64_t operations, const Team& team)
      : Result(name, seconds, operations, team, team.cpu_seconds()) {}
  // For a program whose threads also did what is not to be measured, or that watches another
  // process.
  Result(const char* name, double seconds, uint64_t operations, const Team& team,
         double cpu_seconds, uint64_t peak = status_kib("VmHWM")) {
    if (seconds <= 0) seconds = 1e-9;
    add("{\"bench\": \"%s\", \"seconds\": %.9f, \"cpu_seconds\": %.9f, \"operations\": %" PRIu64
        ", \"ops_per_second\": %.1f, \"peak_rss_kib\": %" PRIu64
        ", \"table_kib\": %zu, \"threads\": %zu, \"cpus\": [",
        name, seconds, cpu_seconds, operations, static_cast<double>(operations) / seconds, peak,
        TableBytes::peak.load() / 1024, team.ran_on().size());
    // One for each thread; with more threads than CPUs, which is no measure of parallel work
    // anyway, each CPU once.
    std::vector<int> cpus = team.ran_on();
    if (!team.fits(cpus.size())) {
      std::sort(cpus.begin(), cpus.end());
      cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
    }
    for (size_t i = 0; i < cpus.size(); i++) add(i == 0 ? "%d" : ", %d", cpus[i]);
    add("], \"migrated\": %s, \"least_cpu_share\": %.3f", team.migrated() ? "true" : "false",
        team.least_cpu_share());
  }
  Result& number(const char* name, double value) {
    add(", \"%s\": %.9g", name, value);
    return *this;
  }
  // The most bytes that the program had asked for and not yet freed; exact, or as expected of
  // random sizes.
  Result& live(uint64_t bytes) { return number("peak_live_bytes", static_cast<double>(bytes)); }
  Result& json(const char* name, const std::string& value) {
    text_ += std::string(", \"") + name + "\": " + value;
    return *this;
  }
  Result& word(const char* name, const char* value) {
    add(", \"%s\": \"%s\"", name, value);
    return *this;
  }
  void print() { std::printf("%s}\n", text_.c_str()); }

 private:
  __attribute__((format(printf, 2, 3))) void add(const char* format, ...) {
    char buffer[512];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(buffer, sizeof buffer, format, arguments);
    va_end(arguments);
    text_ += buffer;
  }
  std::string text_;
};

}  // namespace bench

#endif  // LOFT_BENCH_COMMON_H_
