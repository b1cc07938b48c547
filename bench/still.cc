// A library that is preloaded behind the allocator: the clock stands still and random bytes are
// always the same, so that what an allocator does by time or by chance repeats exactly. And what
// valgrind would refuse one of the allocators is cut to what it has. The last of the signals ends
// the program with loft's statistics (bench/observe.cc).
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdarg>
#include <cstddef>
#include <cstdint>

namespace {
constexpr time_t kNow = 1'000'000;
}

// Of loft, if that is preloaded.
extern "C" [[gnu::weak]] int loft_stats_write(int file, int format) noexcept;

namespace {

constexpr int kJson = 1;

void end(int) {
  if (loft_stats_write != nullptr) loft_stats_write(STDERR_FILENO, kJson);
  _exit(0);
}

[[gnu::constructor]] void end_by_signal() {
  struct sigaction action = {};
  action.sa_handler = end;
  sigaction(SIGRTMAX, &action, nullptr);
}

}  // namespace

extern "C" int clock_gettime(clockid_t, timespec* now) noexcept {
  *now = {kNow, 0};
  return 0;
}

// lua draws the seed of its tables from it.
extern "C" time_t time(time_t* now) noexcept {
  if (now != nullptr) *now = kNow;
  return kNow;
}

namespace {

ssize_t draw(void* to, size_t bytes) {
  // With these no free that is counted under hardened=full meets the object that begins a granule.
  // One in some hundred does, which takes 270 instructions more: 5 % of the mean of 32.
  static uint64_t state = 12;
  for (size_t i = 0; i < bytes; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    static_cast<unsigned char*>(to)[i] = static_cast<unsigned char>(state >> 56);
  }
  return static_cast<ssize_t>(bytes);
}

}  // namespace

extern "C" ssize_t getrandom(void* to, size_t bytes, unsigned) { return draw(to, bytes); }

// ruby draws the seed of its tables from it.
extern "C" int getentropy(void* to, size_t bytes) {
  draw(to, bytes);
  return 0;
}

#if defined(__x86_64__)
// Allocators ask the kernel without libc's function, too.
extern "C" long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  long words[6];
  for (long& word : words) word = va_arg(list, long);
  va_end(list);
  if (number == SYS_getrandom) {
    return draw(reinterpret_cast<void*>(words[0]), static_cast<size_t>(words[1]));
  }
  register long fourth __asm__("r10") = words[3];
  register long fifth __asm__("r8") = words[4];
  register long sixth __asm__("r9") = words[5];
  long result = number;
  __asm__ volatile("syscall"
                   : "+a"(result)
                   : "D"(words[0]), "S"(words[1]), "d"(words[2]), "r"(fourth), "r"(fifth),
                     "r"(sixth)
                   : "rcx", "r11", "memory");
  if (result >= 0 || result < -4095) return result;
  errno = static_cast<int>(-result);
  return -1;
}

// Where valgrind counts, addresses are below 2^37, and no mapping is longer. snmalloc's table of
// all addresses, 16 bytes for each 16 KiB, is: there its beginning is enough.
extern "C" void* mmap(void* at, size_t bytes, int access, int flags, int file,
                      off_t offset) noexcept {
  constexpr size_t kTooLong = size_t{1} << 37;
  constexpr size_t kEnough = size_t{1} << 30;
  const long mapped = syscall(SYS_mmap, at, bytes, access, flags, file, offset);
  if (mapped != -1 || bytes < kTooLong) return reinterpret_cast<void*>(mapped);
  return reinterpret_cast<void*>(syscall(SYS_mmap, at, kEnough, access, flags, file, offset));
}
#endif
