// What a replay has used: time, and memory of its own.
#ifndef LOFT_TRACE_USAGE_H_
#define LOFT_TRACE_USAGE_H_

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

namespace trace {

inline uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000 + static_cast<uint64_t>(t.tv_nsec);
}

inline double seconds(const timeval& t) {
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
}

// What is resident and not shared. Reading it allocates nothing.
class OwnMemory {
 public:
  OwnMemory() = default;
  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;
  ~OwnMemory() {
    if (statm_ >= 0) close(statm_);
  }
  void open() {
    statm_ = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    page_kib_ = static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) / 1024;
  }

  [[gnu::noinline]] uint64_t kib() const {
    char text[128];
    const ssize_t length = pread(statm_, text, sizeof(text) - 1, 0);
    if (length <= 0) return 0;
    text[length] = '\0';
    char* at = text;
    strtoul(at, &at, 10);
    const uint64_t resident = strtoul(at, &at, 10);
    const uint64_t shared = strtoul(at, &at, 10);
    return resident > shared ? (resident - shared) * page_kib_ : 0;
  }

 private:
  uint64_t page_kib_ = 4;
  int statm_ = -1;
};

}  // namespace trace

#endif  // LOFT_TRACE_USAGE_H_
