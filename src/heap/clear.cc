#include "heap/clear.h"

#include "base/bits.h"
#include "base/size_class.h"
#include "os/fault.h"
#include "os/os.h"

namespace loft::large {

namespace {

// From this size on, looking at some pages costs little beside clearing them all.
constexpr size_t kLookMin = size_t{1} << 20;
constexpr size_t kSamples = 16;  // pages examined first

// Whether a page reads as zero. The first line of most other pages already differs.
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

// Whether more than three quarters of the sampled pages read as zero. Reading a page without memory
// maps the system's one page of zeros, and gives it none.
bool is_mostly_zero(const char* at, size_t bytes, size_t page) {
  const size_t stride = round_down(bytes / kSamples, page);
  size_t zeros = 0;
  for (size_t i = 0; i < kSamples; ++i) {
    if (is_zero(at + i * stride, page)) ++zeros;
  }
  return zeros > kSamples * 3 / 4;
}

// Skips pages that read as zero: writing would give memory to a page without any.
void clear_pages(char* at, size_t bytes, size_t page) {
  size_t first = 0;  // of the pages before `i` that are yet to be cleared
  for (size_t i = 0; i < bytes; i += page) {
    if (LOFT_LIKELY(!is_zero(at + i, page))) continue;
    __builtin_memset(at + first, 0, i - first);
    first = i + page;
  }
  __builtin_memset(at + first, 0, bytes - first);
}

}  // namespace

void clear(void* at, size_t bytes) {
  const size_t page = os::page_size();
  LOFT_CHECK(bytes % page == 0);
  auto* const base = static_cast<char*>(at);
  if (bytes < kLookMin) {
    __builtin_memset(base, 0, bytes);
  } else if (!is_mostly_zero(base, bytes, page) || !os::discard(base, bytes)) {
    clear_pages(base, bytes, page);
  }
}

}  // namespace loft::large
