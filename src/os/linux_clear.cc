// Clearing long ranges on Linux, which says of each page whether it holds memory.
#include <sys/mman.h>

#include "base/bits.h"
#include "os/os.h"

namespace loft::os {

namespace {

// From this size on, looking which pages there are takes little beside clearing them.
constexpr size_t kLookMin = size_t{1} << 20;
constexpr size_t kPagesAtOnce = 1024;  // looked at at once

// What is to be given back, in as few calls as can be.
class Gaps {
 public:
  void add(char* at, size_t bytes) {
    ranges_[count_++] = {at, bytes};
    if (count_ == kMostRanges) discard();
  }
  // What the system does not take back, as locked pages, is cleared.
  void discard() {
    if (count_ == 0) return;
    const uint64_t gone = discard_ranges(ranges_, count_);
    for (size_t i = 0; i < count_; ++i) {
      if ((gone >> i & 1) == 0) __builtin_memset(ranges_[i].at, 0, ranges_[i].bytes);
    }
    count_ = 0;
  }

 private:
  Range ranges_[kMostRanges];
  size_t count_ = 0;
};

}  // namespace

// A page that holds no memory may still not read as zero: it may have been swapped out.
void clear(void* at, size_t bytes) {
  if (bytes < kLookMin) {
    __builtin_memset(at, 0, bytes);
    return;
  }
  const KeepErrno keep;
  const size_t page = page_size();
  Gaps gaps;
  unsigned char pages[kPagesAtOnce];
  for (size_t done = 0; done < bytes;) {
    char* const base = static_cast<char*>(at) + done;
    const size_t count = least(kPagesAtOnce, (bytes - done) / page);
    if (mincore(base, count * page, pages) != 0) __builtin_memset(pages, 1, count);
    for (size_t i = 0; i < count;) {
      const size_t first = i;
      const bool resident = (pages[i] & 1) != 0;
      while (i < count && ((pages[i] & 1) != 0) == resident) ++i;
      if (resident) {
        __builtin_memset(base + first * page, 0, (i - first) * page);
      } else {
        gaps.add(base + first * page, (i - first) * page);
      }
    }
    done += count * page;
  }
  gaps.discard();
}

}  // namespace loft::os
