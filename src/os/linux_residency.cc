// Residency on Linux. Since 6.7, the kernel lists the runs of resident pages in a range. The list
// can leave out pages that were only read. Older kernels are asked page by page.
#include "os/residency.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/keep_errno.h"
#include "os/linux_calls.h"

namespace loft::os {

namespace {

// PAGEMAP_SCAN and its arguments, for headers that lack them.
struct ScanRegion {
  uint64_t start;
  uint64_t end;
  uint64_t categories;
};
struct ScanArguments {
  uint64_t size;
  uint64_t flags;
  uint64_t start;
  uint64_t end;
  uint64_t walk_end;  // out
  uint64_t regions;
  uint64_t region_count;
  uint64_t most_pages;
  uint64_t inverted;
  uint64_t all_of;
  uint64_t any_of;
  uint64_t told;
};
constexpr unsigned long kScan = _IOWR('f', 16, ScanArguments);
constexpr uint64_t kPresent = 1u << 3;
constexpr uint64_t kZeroPage = 1u << 5;
constexpr uint64_t kHuge = 1u << 6;

// While the kernel scans, it holds the lock on the process's mappings, and a thread that maps
// memory waits for it. A piece of this size takes a tenth of a millisecond at most.
constexpr size_t kPiece = size_t{64} << 20;

// Relaxed: a thread that learns late that the kernel cannot do it asks once more.
constinit Atomic<bool> knows_runs{true};

}  // namespace

// Direct system calls, because libc's open and close are cancellation points.
Residency::Residency() {
  const KeepErrno keep;
  if (!knows_runs.load(memory_order_relaxed)) return;
  file_ =
      static_cast<int>(syscall(SYS_openat, AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
}

Residency::~Residency() {
  const KeepErrno keep;
  if (file_ >= 0) syscall(SYS_close, file_);
}

// Asks about the next part of the range, at most a piece. Fills runs_ and moves known_ forward.
void Residency::look() {
  const KeepErrno keep;
  next_ = count_ = 0;
  const uintptr_t end = least(end_, known_ + kPiece);
  if (file_ < 0 || !look_at_runs(end)) look_at_pages(end);
}

bool Residency::look_at_runs(uintptr_t end) {
  ScanRegion regions[kMostRuns];
  ScanArguments arguments = {};
  arguments.size = sizeof(arguments);
  arguments.start = known_;
  arguments.end = end;
  arguments.regions = reinterpret_cast<uint64_t>(regions);
  arguments.region_count = kMostRuns;
  arguments.inverted = kZeroPage;
  arguments.all_of = kPresent | kZeroPage;
  arguments.told = kPresent | kHuge;
  const int found = call_ioctl(file_, kScan, &arguments);
  if (found < 0 || arguments.walk_end <= known_) {
    if (errno == ENOTTY) knows_runs.store(false, memory_order_relaxed);
    return false;
  }
  for (int i = 0; i < found; ++i) {
    add(regions[i].start, regions[i].end, (regions[i].categories & kHuge) != 0);
  }
  known_ = arguments.walk_end;
  return true;
}

bool Residency::ask_for_pages(uintptr_t from, size_t bytes, unsigned char* pages) {
  return call_mincore(reinterpret_cast<void*>(from), bytes, pages) == 0;
}

}  // namespace loft::os
