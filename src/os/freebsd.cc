// The interface of os/os.h on FreeBSD 13 and later.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/types.h>
// In this order.
#include <sys/cpuset.h>
#include <sys/mman.h>
#include <sys/sysctl.h>
#include <sys/umtx.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/keep_errno.h"
#include "os/at_fault.h"
#include "os/bsd_map.h"
#include "os/os.h"

namespace loft::os {

namespace {

constexpr long kNsInSecond = 1'000'000'000;

// 0, or the error.
int wait_on(const void* word, uint32_t expected, const struct timespec* longest) {
  // The size of the time is passed where an older system has a second time.
  void* const size = longest == nullptr ? nullptr : reinterpret_cast<void*>(sizeof(*longest));
  auto* const what = const_cast<void*>(word);
  auto* const time = const_cast<struct timespec*>(longest);
  return _umtx_op(what, UMTX_OP_WAIT_UINT_PRIVATE, expected, size, time) == 0 ? 0 : errno;
}

}  // namespace

void* map(void* at, size_t bytes, int protection, int flags) {
  count_map();
  return mmap(at, bytes, protection, MAP_PRIVATE | MAP_ANON | flags, -1, 0);
}

// Where something is mapped, the system says that it has no memory. Whether it has shows a mapping
// that is free to lie anywhere.
Placed place(void* at, size_t bytes) {
  const KeepErrno keep;
  if (map(at, bytes, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_EXCL) == at) return Placed::kYes;
  if (errno != ENOMEM && errno != EEXIST) return Placed::kNoMemory;
  return has_memory_for(bytes) ? Placed::kOccupied : Placed::kNoMemory;
}

bool place_zeros(void* at, size_t bytes) {
  const KeepErrno keep;
  return map(at, bytes, PROT_READ, MAP_FIXED | MAP_EXCL) == at;
}

bool advise(void*, size_t, Advice) { return false; }

bool run_on(uint64_t processor) {
  const KeepErrno keep;
  if (processor >= CPU_SETSIZE) return false;
  cpuset_t one;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  return cpuset_setaffinity(CPU_LEVEL_WHICH, CPU_WHICH_TID, -1, sizeof(one), &one) == 0;
}

namespace {

// Of the calling thread, or of its process.
size_t processors_of(cpuwhich_t whose, void* set, size_t bytes) {
  return cpuset_getaffinity(CPU_LEVEL_WHICH, whose, -1, bytes, static_cast<cpuset_t*>(set)) == 0
             ? bytes
             : 0;
}

size_t count_in(const unsigned long* words, size_t bytes) {
  size_t sum = 0;
  for (size_t i = 0; i < bytes / sizeof(words[0]); ++i) sum += count_bits(words[i]);
  return sum;
}

}  // namespace

void ProcessorSet::read() {
  const KeepErrno keep;
  static_assert(sizeof(cpuset_t) <= sizeof(words_));
  bytes_ = processors_of(CPU_WHICH_TID, words_, sizeof(cpuset_t));
}

bool ProcessorSet::operator==(const ProcessorSet& other) const {
  return bytes_ == other.bytes_ && __builtin_memcmp(words_, other.words_, bytes_) == 0;
}

size_t ProcessorSet::count() const { return count_in(words_, bytes_); }

void ProcessorSet::apply() const {
  const KeepErrno keep;
  const auto* const set = reinterpret_cast<const cpuset_t*>(words_);
  if (bytes_ != 0) cpuset_setaffinity(CPU_LEVEL_WHICH, CPU_WHICH_TID, -1, bytes_, set);
}

size_t processors() {
  const KeepErrno keep;
  unsigned long words[sizeof(cpuset_t) / sizeof(unsigned long)] = {};
  return count_in(words, processors_of(CPU_WHICH_PID, words, sizeof(words)));
}

unsigned processor() {
  const KeepErrno keep;
  const int number = sched_getcpu();
  return number < 0 ? 0 : static_cast<unsigned>(number);
}

unsigned processor_numbers() {
  const KeepErrno keep;
  const long count = sysconf(_SC_NPROCESSORS_CONF);
  return count < 0 ? 0 : static_cast<unsigned>(count);
}

uint64_t entropy() {
  const KeepErrno keep;
  uint64_t value = 0;
  size_t bytes = sizeof(value);
  static constexpr int kName[] = {CTL_KERN, KERN_ARND};
  return sysctl(kName, 2, &value, &bytes, nullptr, 0) == 0 ? value : now_ns();
}

bool has_more_rights() { return issetugid() != 0; }

// Such a handler's malloc may wait for a lock that the thread itself holds, and nobody would wake
// it. Other threads hold no lock as long as kLong.
void wait_on_word(const void* word, uint32_t expected) {
  const KeepErrno keep;
  constexpr struct timespec kLong = {3, 0};
  const int error = wait_on(word, expected, at_fault ? &kLong : nullptr);
  if (LOFT_UNLIKELY(error == ETIMEDOUT)) abort_process();
}

void wait_on_word_for(const void* word, uint32_t expected, uint64_t nanoseconds) {
  const KeepErrno keep;
  const struct timespec time = {static_cast<time_t>(nanoseconds / kNsInSecond),
                                static_cast<long>(nanoseconds % kNsInSecond)};
  wait_on(word, expected, &time);
}

void wake_one(const void* word) {
  const KeepErrno keep;
  _umtx_op(const_cast<void*>(word), UMTX_OP_WAKE_PRIVATE, 1, nullptr, nullptr);
}

}  // namespace loft::os
