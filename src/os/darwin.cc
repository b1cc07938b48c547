// The interface of os/os.h on macOS 11 and later.
#include <errno.h>
#include <mach-o/loader.h>
#include <mach/mach.h>
#include <mach/vm_map.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/keep_errno.h"
#include "os/at_fault.h"
#include "os/bsd_map.h"
#include "os/os.h"
#include "os/posix_threads.h"
#include "os/symbols.h"

extern "C" {

// What the system's own locks wait by, and libc++'s waits on atomics. No header declares them. The
// time is in microseconds, 0 for no limit.
int __ulock_wait(uint32_t operation, void* address, uint64_t value, uint32_t time);
int __ulock_wake(uint32_t operation, void* address, uint64_t value);

// Where the linker has put the header of the executable or library that has this code.
extern const struct mach_header_64 __dso_handle;

}  // extern "C"

namespace loft::os {

namespace {

constexpr uint32_t kCompareAndWait = 1;
constexpr uint32_t kNoErrno = 0x01000000;  // the error is the result, below 0

// Tools name regions by such a tag: one of those left to applications.
constexpr int kTag = VM_MAKE_TAG(VM_MEMORY_APPLICATION_SPECIFIC_1);

Placed place_at(void* at, size_t bytes, vm_prot_t protection) {
  count_map();
  auto address = reinterpret_cast<vm_address_t>(at);
  const kern_return_t result =
      vm_map(mach_task_self(), &address, bytes, 0, VM_FLAGS_FIXED | kTag, MEMORY_OBJECT_NULL, 0,
             FALSE, protection, VM_PROT_READ | VM_PROT_WRITE, VM_INHERIT_COPY);
  if (result == KERN_SUCCESS) return Placed::kYes;
  return result == KERN_NO_SPACE ? Placed::kOccupied : Placed::kNoMemory;
}

int wait_on(const void* word, uint32_t expected, uint32_t microseconds) {
  return __ulock_wait(kCompareAndWait | kNoErrno, const_cast<void*>(word), expected, microseconds);
}

}  // namespace

void* map(void* at, size_t bytes, int protection, int flags) {
  count_map();
  return mmap(at, bytes, protection, MAP_PRIVATE | MAP_ANON | flags, kTag, 0);
}

Placed place(void* at, size_t bytes) { return place_at(at, bytes, VM_PROT_READ | VM_PROT_WRITE); }

bool place_zeros(void* at, size_t bytes) {
  return place_at(at, bytes, VM_PROT_READ) == Placed::kYes;
}

bool advise(void*, size_t, Advice) { return false; }

// Threads choose no processor there: a set stays empty, which is one that the system did not tell.
bool run_on(uint64_t) { return false; }
void ProcessorSet::read() { bytes_ = 0; }
bool ProcessorSet::operator==(const ProcessorSet& other) const { return bytes_ == other.bytes_; }
size_t ProcessorSet::count() const { return bytes_ == 0 ? 0 : words_[0]; }
void ProcessorSet::apply() const {}

size_t processors() {
  const KeepErrno keep;
  const long count = sysconf(_SC_NPROCESSORS_ONLN);
  return count < 0 ? 0 : static_cast<size_t>(count);
}

unsigned processor() {
  size_t number = 0;
  return pthread_cpu_number_np(&number) == 0 ? static_cast<unsigned>(number) : 0;
}

unsigned processor_numbers() {
  const KeepErrno keep;
  const long count = sysconf(_SC_NPROCESSORS_CONF);
  return count < 0 ? 0 : static_cast<unsigned>(count);
}

uint64_t entropy() {
  const KeepErrno keep;
  uint64_t value = 0;
  return getentropy(&value, sizeof(value)) == 0 ? value : now_ns();
}

bool has_more_rights() { return issetugid() != 0; }

bool is_own_library() { return __dso_handle.filetype == MH_DYLIB; }

int thread_number() {
  uint64_t number = 0;
  return pthread_threadid_np(nullptr, &number) == 0 ? static_cast<int>(number) : 0;
}

uint64_t thread_time_ns(int) { return 0; }

// A child that shares its parent's memory may start no thread there, whoever asks.
bool is_thread_of_libc() { return true; }

bool is_first_thread() { return pthread_main_np() == 1; }

// Such a handler's malloc may wait for a lock that the thread itself holds, and nobody would wake
// it. Other threads hold no lock as long as kLong.
void wait_on_word(const void* word, uint32_t expected) {
  const KeepErrno keep;
  constexpr uint32_t kLong = 3'000'000;
  const int result = wait_on(word, expected, at_fault ? kLong : 0);
  if (LOFT_UNLIKELY(result == -ETIMEDOUT)) abort_process();
}

void wait_on_word_for(const void* word, uint32_t expected, uint64_t nanoseconds) {
  const KeepErrno keep;
  wait_on(word, expected,
          static_cast<uint32_t>(clamp<uint64_t>(nanoseconds / 1000, 1, UINT32_MAX)));
}

void wake_one(const void* word) {
  const KeepErrno keep;
  __ulock_wake(kCompareAndWait | kNoErrno, const_cast<void*>(word), 0);
}

}  // namespace loft::os
