// A file by itself, and compiled by itself: tests put a function of their own in the place of this.
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/keep.h"
#include "base/macros.h"
#include "os/auxiliary.h"
#include "os/os.h"

namespace loft::os {

namespace {

// No step back leads from the result to what it was made of.
uint64_t fold(uint64_t one, uint64_t other) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = Wide{one} * other;
  return static_cast<uint64_t>(product >> 64) ^ static_cast<uint64_t>(product);
}

// In the first moments of a machine, and under a filter of system calls. The first eight of the
// bytes that the kernel gives a program become its stacks' canary, which many a program lets be
// read. The others hide pointers under glibc, so they are not told either.
uint64_t drawn_without_system(const void* at) {
  static constinit Atomic<uint64_t> draws{0};  // relaxed: each gets another number
  uint64_t given = 0x94D049BB133111EB;
  const uintptr_t bytes = auxiliary(AT_RANDOM);
  if (bytes != 0) __builtin_memcpy(&given, reinterpret_cast<const char*>(bytes) + 8, sizeof(given));
  const uint64_t moment = now_ns() + draws.fetch_add(uint64_t{1} << 40, memory_order_relaxed);
  return fold(given, (moment | 1) * 0x9E3779B97F4A7C15u) ^ reinterpret_cast<uintptr_t>(at);
}

}  // namespace

LOFT_AT_LOAD void random_bytes(void* to, size_t bytes) {
  const KeepErrno keep;
  if (LOFT_LIKELY(syscall(SYS_getrandom, to, bytes, GRND_NONBLOCK) == static_cast<long>(bytes))) {
    return;
  }
  uint64_t state = drawn_without_system(to);
  for (size_t i = 0; i < bytes; ++i) {
    state = fold(state + 0x9E3779B97F4A7C15u, 0xBF58476D1CE4E5B9u);
    static_cast<unsigned char*>(to)[i] = static_cast<unsigned char>(state >> 56);
  }
}

}  // namespace loft::os
