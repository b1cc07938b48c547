// Since 6.7, the kernel lists the runs of resident pages in a range. The list can leave out pages
// that were only read. Older kernels are asked page by page: a byte for each, as mincore returns
// them. There, pages that were only read count as resident; they all map the one zero page.
#include "os/residency.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ioctl.h>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/keep.h"
#include "base/raw_file.h"
#include "os/calls.h"
#include "os/os.h"

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

constexpr size_t kMostPages = 1024;  // a call of mincore

// loft's mappings begin at multiples of this and are multiples of it in length.
constexpr size_t kLeastMapped = size_t{64} << 10;

// Relaxed: a thread that learns late that the kernel cannot do it asks once more.
constinit Atomic<bool> knows_runs{true};

}  // namespace

Residency::Residency() {
  const KeepErrno keep;
  if (!knows_runs.load(memory_order_relaxed)) return;
  file_ = raw::open_file("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
}

Residency::~Residency() {
  const KeepErrno keep;
  if (file_ >= 0) raw::close_file(file_);
}

void Residency::begin(uintptr_t from, uintptr_t to) {
  known_ = from;
  end_ = to;
  next_ = count_ = 0;
}

Residency::Bytes Residency::until(uintptr_t limit) {
  Bytes sum;
  for (;;) {
    for (; next_ != count_; ++next_) {
      Run& run = runs_[next_];
      if (run.begin >= limit) return sum;
      const uintptr_t end = least(run.end, limit);
      sum.resident += end - run.begin;
      if (run.huge) sum.huge += end - run.begin;
      run.begin = end;
      if (end != run.end) return sum;
    }
    if (known_ >= least(limit, end_)) return sum;
    look();
  }
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

void Residency::look_at_pages(uintptr_t end) {
  const size_t page = page_size();
  end = least(end, known_ + kMostPages * page);
  unsigned char pages[kMostPages];
  while (call_mincore(reinterpret_cast<void*>(known_), end - known_, pages) != 0) {
    const bool has_gaps = errno == ENOMEM;
    // `known_` may lie inside a mapping. The next one may begin at the next multiple.
    const uintptr_t next = round_down(known_, kLeastMapped) + kLeastMapped;
    if (has_gaps && end > next) {
      end = next;
      continue;
    }
    if (!has_gaps) add(known_, end, false);
    known_ = end;
    return;
  }
  const size_t count = (end - known_) / page;
  size_t i = 0;
  while (i < count && count_ < kMostRuns) {
    const size_t first = i;
    const bool resident = (pages[i] & 1) != 0;
    while (i < count && ((pages[i] & 1) != 0) == resident) ++i;
    if (resident) add(known_ + first * page, known_ + i * page, false);
  }
  known_ += i * page;
}

void Residency::add(uintptr_t begin, uintptr_t end, bool huge) {
  runs_[count_++] = Run{begin, end, huge};
}

}  // namespace loft::os
