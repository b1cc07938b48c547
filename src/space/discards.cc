#include "space/discards.h"

#include "base/atomic.h"
#include "space/window.h"

namespace loft {

namespace {

// Relaxed: a thread that sees it late leaves a page whole.
constinit Atomic<bool> may_be_huge{false};

}  // namespace

void note_huge_pages() { may_be_huge.store(true, memory_order_relaxed); }

void split_at_ends(uintptr_t from, size_t length) {
  if (LOFT_LIKELY(!may_be_huge.load(memory_order_relaxed))) return;
  const auto split = [](uintptr_t begin, uintptr_t end) {
    if (begin == end) return;
    os::advise(reinterpret_cast<void*>(begin), end - begin, os::Advice::kSplit);
  };
  const uintptr_t end = from + length;
  const uintptr_t first = round_up(from, kHugePage);
  const uintptr_t last = round_down(end, kHugePage);
  if (first > last) return split(from, end);
  split(from, first);
  split(last, end);
}

}  // namespace loft
