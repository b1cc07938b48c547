// The interface of os/os.h on Windows, but for pages (windows_pages.cc) and threads of loft's own.
// Nothing here calls the C runtime but for errno, abort and files that are numbered by it.
#include <errno.h>
#include <io.h>
#include <signal.h>
#include <stdlib.h>
#include <windows.h>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/words.h"
#include "os/at_fault.h"
#include "os/os.h"
#include "os/windows_error.h"

// Of the system's libraries, declared in no header that all compilers have.
extern "C" __declspec(dllimport) BOOLEAN NTAPI SystemFunction036(PVOID bytes, ULONG count);

namespace loft::os {

namespace {

// Relaxed: every thread that looks it up finds the same one.
constinit Atomic<BOOLEAN(NTAPI*)()> shutdown_in_progress{nullptr};

// Whether the process ends. Its other threads have then been stopped wherever they were.
bool process_ends_now() {
  auto* function = shutdown_in_progress.load(memory_order_relaxed);
  if (function == nullptr) {
    const HMODULE ntdll = GetModuleHandleA("ntdll.dll");
    function = reinterpret_cast<BOOLEAN(NTAPI*)()>(
        reinterpret_cast<void*>(GetProcAddress(ntdll, "RtlDllShutdownInProgress")));
    if (function == nullptr) return false;
    shutdown_in_progress.store(function, memory_order_relaxed);
  }
  return function() != 0;
}

DWORD in_milliseconds(uint64_t nanoseconds) {
  constexpr uint64_t kLongest = INFINITE - 1;
  return static_cast<DWORD>(least((nanoseconds + 999'999) / 1'000'000, kLongest));
}

bool wait_for(const void* word, uint32_t expected, DWORD milliseconds) {
  return WaitOnAddress(const_cast<void*>(word), &expected, sizeof(expected), milliseconds) != 0;
}

uint64_t frequency() {
  // Relaxed: every thread finds the same number.
  static constinit Atomic<uint64_t> known{0};
  uint64_t found = known.load(memory_order_relaxed);
  if (found == 0) {
    LARGE_INTEGER per_second;
    QueryPerformanceFrequency(&per_second);
    found = static_cast<uint64_t>(per_second.QuadPart);
    known.store(found, memory_order_relaxed);
  }
  return found;
}

size_t processors_of(HANDLE process) {
  DWORD_PTR ours = 0;
  DWORD_PTR all = 0;
  return GetProcessAffinityMask(process, &ours, &all) ? count_bits(uint64_t{ours}) : 0;
}

}  // namespace

constinit LOFT_TLS __thread bool at_fault = false;

void random_bytes(void* to, size_t bytes) {
  const KeepLastError keep;
  if (SystemFunction036(to, static_cast<ULONG>(bytes)) != 0) return;
  uint64_t mixed = now_ns() ^ reinterpret_cast<uintptr_t>(to);
  for (size_t i = 0; i < bytes; ++i) {
    mixed = (mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9u + i;
    static_cast<unsigned char*>(to)[i] = static_cast<unsigned char>(mixed >> 56);
  }
}

bool has_more_rights() { return false; }  // there is no such thing

// The environment as it was at the first call, which the system keeps in a heap of its own.
const char* environment(const char* name) {
  const KeepLastError keep;
  static constinit Atomic<const char*> block{nullptr};
  const char* entry = block.load(memory_order_acquire);
  if (entry == nullptr) {
    const char* const fresh = GetEnvironmentStringsA();
    // Release pairs with the acquire above: who finds the block finds what is in it.
    if (fresh == nullptr ||
        block.compare_exchange_strong(entry, fresh, memory_order_acq_rel, memory_order_acquire)) {
      entry = fresh;
    } else {
      FreeEnvironmentStringsA(const_cast<char*>(fresh));
    }
  }
  for (; entry != nullptr && *entry != 0; entry += __builtin_strlen(entry) + 1) {
    const char* const rest = after(name, entry);
    if (rest != nullptr && *rest == '=') return rest + 1;
  }
  return nullptr;
}

// A number is one of the C runtime's, except for the standard streams, which loft writes to before
// the runtime is ready.
int write_all(int file, const char* text, size_t bytes) {
  const KeepLastError keep;
  const HANDLE handle = file == 1   ? GetStdHandle(STD_OUTPUT_HANDLE)
                        : file == 2 ? GetStdHandle(STD_ERROR_HANDLE)
                                    : reinterpret_cast<HANDLE>(_get_osfhandle(file));
  if (handle == nullptr || handle == INVALID_HANDLE_VALUE) return EBADF;
  while (bytes != 0) {
    DWORD written = 0;
    const auto some = static_cast<DWORD>(least<size_t>(bytes, 1u << 30));
    if (!WriteFile(handle, text, some, &written, nullptr) || written == 0) return EIO;
    text += written;
    bytes -= written;
  }
  return 0;
}

void write_error(const char* text, size_t bytes) { write_all(2, text, bytes); }

void abort_process() {
  // A second fault, inside a handler of the first. The handler has had its chance.
  if (at_fault) signal(SIGABRT, SIG_DFL);
  at_fault = true;
  abort();
}

uint64_t now_ns() {
  constexpr uint64_t kSecond = 1'000'000'000;
  LARGE_INTEGER count;
  QueryPerformanceCounter(&count);
  const auto ticks = static_cast<uint64_t>(count.QuadPart);
  const uint64_t each = frequency();
  return ticks / each * kSecond + ticks % each * kSecond / each;
}

// Processors are numbered within groups of 64.
unsigned processor() {
  PROCESSOR_NUMBER number;
  GetCurrentProcessorNumberEx(&number);
  return number.Group * 64u + number.Number;
}

unsigned processor_numbers() {
  const KeepLastError keep;
  const WORD groups = GetMaximumProcessorGroupCount();
  return groups <= 1 ? static_cast<unsigned>(GetMaximumProcessorCount(0)) : groups * 64u;
}

size_t processors() {
  const KeepLastError keep;
  return processors_of(GetCurrentProcess());
}

int thread_number() { return static_cast<int>(GetCurrentThreadId()); }

// loft's threads open no files that a program could close by a number.
bool leave_files() { return true; }

void on_fork(void (*)(), void (*)(), void (*)()) {}

// At the end of a process the system stops its other threads, whatever they hold: nobody will wake
// the one that is left, which ends the process, as the system's own locks do it.
void wait_on_word(const void* word, uint32_t expected) {
  const KeepLastError keep;
  if (process_ends_now()) TerminateProcess(GetCurrentProcess(), 0);
  // A handler's malloc may wait for a lock that the thread itself holds, and nobody would wake it.
  constexpr DWORD kLong = 3000;
  const bool woken = wait_for(word, expected, at_fault ? kLong : INFINITE);
  if (LOFT_UNLIKELY(!woken && at_fault)) abort_process();
}

void wait_on_word_for(const void* word, uint32_t expected, uint64_t nanoseconds) {
  const KeepLastError keep;
  wait_for(word, expected, in_milliseconds(nanoseconds));
}

void wake_one(const void* word) {
  const KeepLastError keep;
  WakeByAddressSingle(const_cast<void*>(word));
}

void pause_briefly() { YieldProcessor(); }

void doze() {
  const KeepLastError keep;
  Sleep(1);
}

void* out_of_memory() {
  errno = ENOMEM;
  return nullptr;
}

}  // namespace loft::os
