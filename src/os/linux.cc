// The system floor on Linux, with any C library that has POSIX threads.
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomic.h"
#include "os/os.h"

#if !defined(MAP_FIXED_NOREPLACE)
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#if !defined(MREMAP_DONTUNMAP)
#define MREMAP_DONTUNMAP 4
#endif

extern char** environ;

namespace loft::os {

namespace {

pthread_key_t exit_key;
bool exit_key_made = false;  // written once, under the lock that every thread takes to start

// Relaxed sums: statistics, nothing is ordered by them.
constinit Atomic<unsigned long> map_calls{0};
constinit Atomic<unsigned long> discard_calls{0};

constinit Atomic<bool> knows_moves{true};  // relaxed: who sees it late asks once more

// libloft.so is initialised before all others, libc included, so that its fork handlers surround
// everybody else's; `environ` is not set then, but glibc passes the environment to constructors.
constinit char** first_environ = nullptr;
#if defined(__GLIBC__)
__attribute__((constructor(101))) void remember_environ(int, char**, char** entries) {
  first_environ = entries;
}
#endif

bool map_at(void* at, size_t bytes, int protection, int placement) {
  const KeepErrno keep;
  map_calls.fetch_add(1, memory_order_relaxed);
  void* p =
      mmap(at, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | placement, -1, 0);
  if (p == at) return true;
  // A kernel older than the flag takes the address for a hint and may choose another place.
  if (p != MAP_FAILED) munmap(p, bytes);
  return false;
}

}  // namespace

KeepErrno::KeepErrno() : saved_(errno) {}
KeepErrno::~KeepErrno() { errno = saved_; }

size_t page_size() {
  // Looking it up walks the auxiliary vector. Relaxed: every thread finds the same number.
  static constinit Atomic<size_t> known{0};
  size_t size = known.load(memory_order_relaxed);
  if (size == 0) {
    size = getauxval(AT_PAGESZ);
    known.store(size, memory_order_relaxed);
  }
  return size;
}

void* reserve(size_t bytes) {
  const KeepErrno keep;
  map_calls.fetch_add(1, memory_order_relaxed);
  void* p = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

void unreserve(void* at, size_t bytes) {
  const KeepErrno keep;
  munmap(at, bytes);
}

// A reserved range changes its protection and is never mapped over: a refused MAP_FIXED leaves a
// hole on some kernels, and another thread's mapping may land in it.
bool commit(void* at, size_t bytes, bool reserved) {
  if (!reserved) return map_at(at, bytes, PROT_READ | PROT_WRITE, MAP_FIXED_NOREPLACE);
  const KeepErrno keep;
  map_calls.fetch_add(1, memory_order_relaxed);
  return mprotect(at, bytes, PROT_READ | PROT_WRITE) == 0;
}

bool renew(void* at, size_t bytes) { return map_at(at, bytes, PROT_READ | PROT_WRITE, MAP_FIXED); }

// The system counts writable private memory against its limit, readable memory not.
bool map_zeros(void* at, size_t bytes, bool reserved) {
  return map_at(at, bytes, PROT_READ, reserved ? MAP_FIXED : MAP_FIXED_NOREPLACE);
}

bool discard(void* at, size_t bytes) {
  const KeepErrno keep;
  discard_calls.fetch_add(1, memory_order_relaxed);
  return madvise(at, bytes, MADV_DONTNEED) == 0;
}

bool move_pages(void* from, void* to, size_t bytes) {
  const KeepErrno keep;
  map_calls.fetch_add(1, memory_order_relaxed);
  // Without the last flag the source would be a hole until it is mapped again, and a mapping that
  // another thread makes in between could land in it. A kernel older than the flag refuses it,
  // before it has touched anything.
  constexpr int kFlags = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
  if (mremap(from, bytes, bytes, kFlags, to) == to) return true;
  if (errno == EINVAL) knows_moves.store(false, memory_order_relaxed);
  return false;
}

bool can_move_pages() { return knows_moves.load(memory_order_relaxed); }

size_t address_space_limit() {
  const KeepErrno keep;
  struct rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
  return limit.rlim_cur;
}

uint64_t entropy() {
  uint64_t value = 0;
  const void* bytes = reinterpret_cast<const void*>(getauxval(AT_RANDOM));
  if (bytes != nullptr) __builtin_memcpy(&value, bytes, sizeof(value));
  return value;
}

const char* environment(const char* name) {
  char** const entries = environ != nullptr ? environ : first_environ;
  if (entries == nullptr) return nullptr;
  for (char** entry = entries; *entry != nullptr; ++entry) {
    const char* e = *entry;
    const char* n = name;
    while (*n != 0 && *e == *n) ++e, ++n;
    if (*n == 0 && *e == '=') return e + 1;
  }
  return nullptr;
}

void write_error(const char* text, size_t bytes) {
  const KeepErrno keep;
  while (bytes != 0) {
    const ssize_t written = write(STDERR_FILENO, text, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text += written;
    bytes -= static_cast<size_t>(written);
  }
}

void abort_process() { abort(); }

bool on_thread_exit(void (*hook)(void*)) {
  exit_key_made = pthread_key_create(&exit_key, hook) == 0;
  return exit_key_made;
}
void set_thread_exit_value(void* value) {
  const KeepErrno keep;
  if (exit_key_made) pthread_setspecific(exit_key, value);  // else the key is somebody else's
}

void on_fork(void (*prepare)(), void (*parent)(), void (*child)()) {
  pthread_atfork(prepare, parent, child);
}

void wait_on_word(const void* word, uint32_t expected) {
  const KeepErrno keep;
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void wake_one(const void* word) {
  const KeepErrno keep;
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

Calls calls() {
  return {map_calls.load(memory_order_relaxed), discard_calls.load(memory_order_relaxed)};
}

void* out_of_memory() {
  errno = ENOMEM;
  return nullptr;
}

}  // namespace loft::os
