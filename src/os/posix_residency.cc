// Residency, asked page by page: a byte for each, as mincore returns them. On Linux, pages that
// were only read count as resident; they all map the one zero page.
#include "os/residency.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/bits.h"
#include "base/keep_errno.h"
#include "os/os.h"

namespace loft::os {

namespace {

constexpr size_t kMostPages = 1024;  // per call, where the kernel is asked page by page

// loft's mappings begin at multiples of this and are multiples of it in length.
constexpr size_t kLeastMapped = size_t{64} << 10;

}  // namespace

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

void Residency::add(uintptr_t begin, uintptr_t end, bool huge) {
  runs_[count_++] = Run{begin, end, huge};
}

void Residency::look_at_pages(uintptr_t end) {
  const size_t page = page_size();
  end = least(end, known_ + kMostPages * page);
  unsigned char pages[kMostPages];
  while (!ask_for_pages(known_, end - known_, pages)) {
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

}  // namespace loft::os
