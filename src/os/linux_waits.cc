// What a thread waits in, by the files that Linux has for it. System calls of our own: libc's are
// places where a thread may be cancelled.
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/bits.h"
#include "os/os.h"

namespace loft::os {

namespace {

// Reads the beginning of /proc/self/task/NUMBER/NAME, at most `size` bytes. How many; 0 if there is
// no such file.
size_t read_of_thread(int number, const char* name, char* text, size_t size) {
  constexpr char kFolder[] = "/proc/self/task/";
  char path[64];
  size_t end = sizeof(kFolder) - 1;
  __builtin_memcpy(path, kFolder, end);
  char digits[12];
  size_t count = 0;
  for (auto n = static_cast<unsigned>(number); n != 0; n /= 10) {
    digits[count++] = static_cast<char>('0' + n % 10);
  }
  while (count != 0) path[end++] = digits[--count];
  path[end++] = '/';
  while (*name != 0) path[end++] = *name++;
  path[end] = 0;
  const long file = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const long got = syscall(SYS_read, file, text, size);
  syscall(SYS_close, file);
  return got < 0 ? 0 : static_cast<size_t>(got);
}

#if defined(__x86_64__)

// "NUMBER A B C D E F SP PC", all but the first in hexadecimal, of a thread that is in a system
// call; else "running", or -1 as the number. 0 for those.
uintptr_t stack_pointer_in_call(const char* text, size_t size) {
  constexpr unsigned kField = 7;
  if (size == 0 || text[0] < '0' || text[0] > '9') return 0;
  uintptr_t value = 0;
  unsigned field = 0;
  for (size_t i = 0; i < size && field <= kField; ++i) {
    const char c = text[i];
    if (c == ' ') {
      if (field++ != kField) value = 0;
    } else if (c >= '0' && c <= '9') {
      value = value * 16 + static_cast<uintptr_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      value = value * 16 + static_cast<uintptr_t>(c - 'a' + 10);
    }
  }
  return field > kField ? value : 0;
}

// In the frame of a signal handler the system saves the registers of what it interrupted, and among
// them always, in one word, the code segment, two zeros, and the stack segment (before Linux 4.6 a
// zero). The code segment of all 64-bit programs is 0x33, or 0xe033 under Xen. The word before it
// has the flags, of which one is always set, and those that the processor does not have are not.
bool may_be_of_a_signal_frame(uint64_t flags, uint64_t word) {
  constexpr uint64_t kAlwaysSet = uint64_t{1} << 1;
  constexpr uint64_t kNeverSet = ~uint64_t{0} << 22 | 1 << 15 | 1 << 5 | 1 << 3;
  const uint64_t saved = word & 0xffffffffffff;
  return (saved == 0x33 || saved == 0xe033) && (flags & (kAlwaysSet | kNeverSet)) == kAlwaysSet;
}

// Also where it cannot be read.
bool may_have_signal_frame(uintptr_t from, uintptr_t to) {
  uint64_t words[512];
  uint64_t before = 0;  // below the first word there is no frame
  for (uintptr_t at = round_up(from, sizeof(uint64_t)); at < to;) {
    const size_t bytes = least<size_t>(sizeof(words), round_up(to - at, sizeof(uint64_t)));
    const struct iovec here = {words, bytes};
    const struct iovec there = {reinterpret_cast<void*>(at), bytes};
    // Whole words: of an int the higher half would be anything, and the system refuses it as flags.
    const long got = syscall(SYS_process_vm_readv, getpid(), &here, 1UL, &there, 1UL, 0UL);
    if (got != static_cast<long>(bytes)) return true;
    for (size_t i = 0; i < bytes / sizeof(uint64_t); ++i) {
      if (may_be_of_a_signal_frame(before, words[i])) return true;
      before = words[i];
    }
    at += bytes;
  }
  return false;
}

#endif

}  // namespace

bool thread_waits(int number) {
  const KeepErrno keep;
  char text[128];
  const size_t size = read_of_thread(number, "stat", text, sizeof(text));
  // "NUMBER (NAME) STATE ...", and NAME, at most 15 bytes, may hold anything.
  for (size_t i = size; i > 3; --i) {
    if (text[i - 3] == ')') return text[i - 1] == 'S';
  }
  return false;
}

// The system tells where the stack pointer was when the thread made the call. If a handler was
// running, its frame lies between there and the end of the stack that it runs on. That is the
// thread's own, or another that lies below it (of a handler, of a coroutine), and is looked through
// with what is between them, or it lies elsewhere, and nothing is known.
bool thread_waits_by_itself(int number, const void* stack_end) {
#if defined(__x86_64__)
  constexpr size_t kMost = 256 * 1024;  // most threads that sleep have a few frames, some a buffer
  const KeepErrno keep;
  char text[256];
  const size_t size = read_of_thread(number, "syscall", text, sizeof(text));
  const uintptr_t pointer = stack_pointer_in_call(text, size);
  const auto end = reinterpret_cast<uintptr_t>(stack_end);
  if (pointer == 0 || pointer >= end || end - pointer > kMost) return false;
  return !may_have_signal_frame(pointer, end);
#else
  static_cast<void>(number);
  static_cast<void>(stack_end);
  return false;
#endif
}

bool sees_system_calls() {
#if defined(__x86_64__)
  const KeepErrno keep;
  char text[1];
  return read_of_thread(thread_number(), "syscall", text, sizeof(text)) != 0;
#else
  return false;
#endif
}

}  // namespace loft::os
