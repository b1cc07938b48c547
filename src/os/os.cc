#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/keep.h"
#include "base/macros.h"
#include "base/raw_file.h"
#include "base/text.h"
#include "os/auxiliary.h"
#include "os/calls.h"

extern char** environ;

namespace loft::os {

constinit LOFT_TLS __thread bool at_fault = false;

namespace {

// Relaxed: these are sums for statistics and order nothing.
constinit Atomic<unsigned long> map_calls{0};
constinit Atomic<unsigned long> discard_calls{0};

void count_map() { map_calls.fetch_add(1, memory_order_relaxed); }

pthread_key_t exit_key;
// Release and acquire pair: a thread that sees the flag set also sees the value of exit_key.
constinit Atomic<bool> exit_key_made{false};

// Relaxed, both: a thread that sees one late asks once more.
constinit Atomic<bool> knows_moves{true};
constinit Atomic<bool> moves_several{true};

// libloft.so is initialised before all other libraries, libc included. Its fork handlers therefore
// surround those of all others. `environ` is not set at that time, but glibc passes the environment
// to constructors.
constinit char** first_environ = nullptr;
#if defined(__GLIBC__)
__attribute__((constructor(101))) void remember_environ(int, char**, char** entries) {
  first_environ = entries;
}
#endif

// Of mmap, mremap and madvise; older headers lack the names.
constexpr int kFixedNoReplace = 0x100000, kDontUnmap = 4, kCold = 20, kPopulateWrite = 23;

void* map(void* at, size_t bytes, int protection, int flags) {
  count_map();
  return call_mmap(at, bytes, protection, MAP_NORESERVE | flags);
}

Mapped map_with(void* at, size_t bytes, int protection) {
  const KeepErrno keep;
  void* p = map(at, bytes, protection, kFixedNoReplace);
  if (p == at) return Mapped::kYes;
  if (p == MAP_FAILED) return errno == EEXIST ? Mapped::kOccupied : Mapped::kNoMemory;
  // A kernel older than the flag treats the address as a hint and chooses another place.
  call_munmap(p, bytes);
  return Mapped::kOccupied;
}

// Every kernel gives a program a vDSO. Emulators of the time of QEMU 7 have none.
bool has_vdso() { return auxiliary(AT_SYSINFO_EHDR) != 0; }

}  // namespace

constinit Atomic<size_t> known_page_size{0};

size_t page_size() {
  // Cached: auxiliary walks a vector.
  size_t size = known_page_size.load(memory_order_relaxed);
  if (LOFT_UNLIKELY(size == 0)) {
    size = auxiliary(AT_PAGESZ);
    known_page_size.store(size, memory_order_relaxed);
  }
  return size;
}

void* reserve(size_t bytes) {
  const KeepErrno keep;
  void* p = map(nullptr, bytes, PROT_NONE, 0);
  return p == MAP_FAILED ? nullptr : p;
}

bool unmap(void* at, size_t bytes) {
  const KeepErrno keep;
  count_map();
  return call_munmap(at, bytes) == 0;
}

bool commit(void* at, size_t bytes) {
  const KeepErrno keep;
  count_map();
  return call_mprotect(at, bytes, PROT_READ | PROT_WRITE) == 0;
}

Mapped map_at(void* at, size_t bytes) { return map_with(at, bytes, PROT_READ | PROT_WRITE); }

// Linux counts writable private memory against its overcommit limit, but not read-only memory.
bool map_zeros_at(void* at, size_t bytes) { return map_with(at, bytes, PROT_READ) == Mapped::kYes; }

bool has_room_for(size_t bytes) {
  const KeepErrno keep;
  void* p = map(nullptr, bytes, PROT_READ | PROT_WRITE, 0);
  return p != MAP_FAILED && call_munmap(p, bytes) == 0;
}

bool has_memory_for(size_t bytes) {
  const KeepErrno keep;
  count_map();
  void* p = call_mmap(nullptr, bytes, PROT_READ | PROT_WRITE, 0);
  return p != MAP_FAILED && call_munmap(p, bytes) == 0;
}

bool close(void* at, size_t bytes, bool is_zero) {
  const KeepErrno keep;
  count_map();
  if (call_mprotect(at, bytes, PROT_NONE) != 0) return false;
  if (!is_zero) call_madvise(at, bytes, MADV_DONTNEED);  // locked memory stays, out of reach
  return true;
}

bool renew(void* at, size_t bytes, bool closed) {
  const KeepErrno keep;
  return map(at, bytes, closed ? PROT_NONE : PROT_READ | PROT_WRITE, MAP_FIXED) == at;
}

bool advise(void* at, size_t bytes, Advice advice) {
  const KeepErrno keep;
  constexpr int kNames[] = {MADV_NOHUGEPAGE, MADV_HUGEPAGE, kCold, kPopulateWrite, MADV_DONTNEED};
  return call_madvise(at, bytes, kNames[static_cast<unsigned>(advice)]) == 0;
}

bool discard(void* at, size_t bytes, Proof proof) {
  const KeepErrno keep;
  discard_calls.fetch_add(1, memory_order_relaxed);
  if (proof == Proof::kNone && has_vdso()) return call_madvise(at, bytes, MADV_DONTNEED) == 0;
  volatile uint32_t* const first = static_cast<uint32_t*>(at);
  // In one access: a page without memory is faulted in once. Relaxed: for that alone.
  const uint32_t before = __atomic_exchange_n(first, 1u, __ATOMIC_RELAXED);
  if (call_madvise(at, bytes, MADV_DONTNEED) == 0 && *first == 0) {
    // The read has mapped the system's zero page there, which some tools count as resident.
    call_madvise(at, page_size(), MADV_DONTNEED);
    return true;
  }
  *first = before;
  return false;
}

bool move_pages(void* from, void* to, size_t bytes) {
  const KeepErrno keep;
  count_map();
  // Without the last flag, the source would be a hole until it is mapped again. In the meantime a
  // mapping of another thread could land there. A kernel older than the flag refuses the call
  // before it changes anything.
  constexpr int kFlags = MREMAP_MAYMOVE | MREMAP_FIXED | kDontUnmap;
  if (call_mremap(from, bytes, bytes, kFlags, to) == to) return true;
  const bool unknown = errno == EINVAL || errno == ENOSYS || errno == EPERM;
  if (unknown) knows_moves.store(false, memory_order_relaxed);
  if (errno == EFAULT) moves_several.store(false, memory_order_relaxed);
  return false;
}

// QEMU 7 takes the source of such a move for unmapped: a system call that is given an address there
// fails with EFAULT.
bool can_move_pages(bool several) {
  if (several && !moves_several.load(memory_order_relaxed)) return false;
  return knows_moves.load(memory_order_relaxed) && has_vdso();
}

bool locks_mappings() {
  const KeepErrno keep;
  const size_t bytes = page_size();
  void* const p = map(nullptr, bytes, PROT_READ | PROT_WRITE, 0);
  const bool locked = call_madvise(p, bytes, MADV_DONTNEED) != 0;  // so too where p is no address
  call_munmap(p, bytes);
  return locked;
}

// QEMU's user mode, until version 8, keeps some 10 bytes for every page of a mapping.
bool may_try_long_mappings() { return has_vdso(); }

LOFT_AT_LOAD size_t address_space_limit() {
  const KeepErrno keep;
  uint64_t limit[2];  // now, and at most
  const bool told = syscall(SYS_prlimit64, 0, RLIMIT_AS, nullptr, limit) == 0;
  return told && limit[0] != ~uint64_t{0} ? limit[0] : kNoLimit;
}

bool has_more_rights() { return auxiliary(AT_SECURE) != 0; }

LOFT_AT_LOAD void visit_environment(const char* prefix, void (*visit)(void*, const char*),
                                    void* context) {
  char** const entries = environ != nullptr ? environ : first_environ;
  if (entries == nullptr) return;
  for (char** entry = entries; *entry != nullptr; ++entry) {
    if (after(prefix, *entry) != nullptr && !has_more_rights()) visit(context, *entry);
  }
}

void write_error(const char* text, size_t bytes) {
  if (write_all(STDERR_FILENO, text, bytes) != EBADF) return;
  // The caller has no descriptor 2, as after leave_files. /proc/self is the process, with the files
  // of its first thread.
  const KeepErrno keep;
  const int file = raw::open_file("/proc/self/fd/2", O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file < 0) return;
  write_all(file, text, bytes);
  raw::close_file(file);
}

int write_all(int file, const char* text, size_t bytes) {
  const KeepErrno keep;
  while (bytes != 0) {
    const ssize_t written = raw::write_file(file, text, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : EIO;
    text += written;
    bytes -= static_cast<size_t>(written);
  }
  return 0;
}

void abort_process() {
  // A second fault, inside a handler of the first. The handler has had its chance.
  if (at_fault) {
    struct sigaction none = {};
    none.sa_handler = SIG_DFL;
    sigaction(SIGABRT, &none, nullptr);
  }
  at_fault = true;
  abort();
}

unsigned processor() {
  const KeepErrno keep;
  const int number = sched_getcpu();
  return number < 0 ? 0 : static_cast<unsigned>(number);
}

unsigned processor_numbers() {
  const KeepErrno keep;
  // The call returns the size in bytes of the kernel's own masks.
  unsigned char mask[4096];
  const long bytes = syscall(SYS_sched_getaffinity, 0, sizeof(mask), mask);
  return bytes < 0 ? 0 : static_cast<unsigned>(bytes) * 8;
}

size_t processors() {
  const KeepErrno keep;
  unsigned long mask[128];
  const long bytes = syscall(SYS_sched_getaffinity, getpid(), sizeof(mask), mask);
  size_t count = 0;
  for (long i = 0; i < bytes / static_cast<long>(sizeof(mask[0])); ++i)
    count += count_bits(mask[i]);
  return count;
}

LOFT_AT_LOAD bool is_first_thread() { return known_single_thread() || thread_number() == getpid(); }

int thread_number() {
  clockid_t clock;
  // The clock's identifier contains the number. libc provides it without a system call.
  return pthread_getcpuclockid(pthread_self(), &clock) == 0 ? ~(clock >> 3) : 0;
}

LOFT_AT_LOAD bool on_thread_exit(void (*hook)(void*)) {
  const bool made = pthread_key_create(&exit_key, hook) == 0;
  exit_key_made.store(made, memory_order_release);
  return made;
}
bool set_thread_exit_value(void* value) {
  const KeepErrno keep;
  // Without the check, exit_key could be the key of other code.
  return exit_key_made.load(memory_order_acquire) && pthread_setspecific(exit_key, value) == 0;
}
void* thread_exit_value() {
  return exit_key_made.load(memory_order_acquire) ? pthread_getspecific(exit_key) : nullptr;
}

LOFT_AT_LOAD void on_fork(void (*prepare)(), void (*parent)(), void (*child)()) {
  pthread_atfork(prepare, parent, child);
}

// A thread that is `at_fault` may run a handler whose malloc waits for a lock that the thread
// itself holds. Nobody would wake it. Other threads hold no lock as long as kLong.
void wait_on_word(const void* word, uint32_t expected) {
  const KeepErrno keep;
  constexpr struct timespec kLong = {3, 0};
  const struct timespec* const longest = at_fault ? &kLong : nullptr;
  const long woken = syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, longest, nullptr, 0);
  if (LOFT_UNLIKELY(woken != 0 && errno == ETIMEDOUT)) abort_process();
}

void wait_on_word_for(const void* word, uint32_t expected, uint64_t nanoseconds) {
  const KeepErrno keep;
  const struct timespec time = {static_cast<time_t>(nanoseconds / 1'000'000'000),
                                static_cast<long>(nanoseconds % 1'000'000'000)};
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, &time, nullptr, 0);
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

// A futex, because sched_yield lets no thread of lower priority run.
void doze() {
  static const uint32_t nobody_wakes = 0;
  wait_on_word_for(&nobody_wakes, 0, 50'000);  // nanoseconds
}

Calls calls() {
  return {map_calls.load(memory_order_relaxed), discard_calls.load(memory_order_relaxed)};
}

void* out_of_memory() {
  errno = ENOMEM;
  return nullptr;
}

}  // namespace loft::os
