// Clearing long ranges on Linux, which says of each page whether it holds memory.
#include <sys/mman.h>

#include "base/bits.h"
#include "base/size_class.h"
#include "os/fault.h"
#include "os/os.h"

namespace loft::os {

namespace {

// From this size on, looking which pages there are takes little beside clearing them.
constexpr size_t kLookMin = size_t{1} << 20;
constexpr size_t kPagesAtOnce = 512;  // looked at at once

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

// Whether a page reads as zero. Most that do not say so in their first line.
bool is_zero(const char* page, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kCacheLine) {
    uint64_t words[kCacheLine / sizeof(uint64_t)];
    __builtin_memcpy(words, page + at, kCacheLine);
    uint64_t any = 0;
    for (const uint64_t word : words) any |= word;
    if (any != 0) return false;
  }
  return true;
}

// A page that was only read is the system's one page of zeros, and writing would give it memory.
void clear_pages(char* at, size_t bytes, size_t page) {
  size_t first = 0;  // of those before `i` that are yet to be cleared
  for (size_t i = 0; i < bytes; i += page) {
    if (LOFT_LIKELY(!is_zero(at + i, page))) continue;
    __builtin_memset(at + first, 0, i - first);
    first = i + page;
  }
  __builtin_memset(at + first, 0, bytes - first);
}

}  // namespace

// A page that holds no memory may still not read as zero: it may have been swapped out.
void clear(void* at, size_t bytes) {
  const size_t page = page_size();
  LOFT_CHECK(bytes % page == 0);
  if (bytes < kLookMin) {
    __builtin_memset(at, 0, bytes);
    return;
  }
  const KeepErrno keep;
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
        clear_pages(base + first * page, (i - first) * page, page);
      } else {
        gaps.add(base + first * page, (i - first) * page);
      }
    }
    done += count * page;
  }
  gaps.discard();
}

}  // namespace loft::os
