// Detects threads that free each other's objects all the time, as threads that share a table or a
// queue do. A returned object then soon comes back through another thread, at the cost of two
// messages and two refills. The freeing thread may as well hand it out itself. A thread that
// received objects only once must return them, to leave room for its own objects, which it frees on
// the fast path.
//
// The number of the thread's own objects that return meanwhile separates the two cases. A thread
// keeps nothing for one window. If it receives enough of its own objects in it, it keeps others'
// objects for some windows and then tests again. (While others keep, a testing thread receives
// fewer objects: at any time, most trading threads keep.) The first window only sets the baseline,
// because the heap's counters include an earlier thread's objects. So a thread that frees fewer
// than two windows of others' objects never keeps any.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "base/size_class.h"
#include "space/pagemap.h"

namespace loft {

struct HeapCounters;
struct ThreadCache;

// Objects whose cache lines no two threads can both write. Larger objects are few per slab and per
// bin; keeping them would keep slabs from becoming free.
constexpr bool is_tradable(SizeClass c) { return fills_cache_lines(c) && class_size(c) <= 1024; }

// The state of one thread. Initially all zero.
class Trade {
 public:
  static constexpr uint32_t kWindow = 1 << 14;  // tradable objects freed without an open batch
  static constexpr uint32_t kEnough = kWindow / 4;
  static constexpr uint32_t kKeeping = 15;  // windows after a window that received enough

  // Counts one such object that the thread freed. True if the thread should keep it. `own`: the
  // counters of its heap.
  bool keeps(const HeapCounters& own) {
    if (LOFT_UNLIKELY(++seen_ == kWindow)) end_window(own);
    return keeping_ != 0;
  }

 private:
  void end_window(const HeapCounters& own);

  uint32_t seen_;     // in this window
  uint16_t keeping_;  // windows left
  bool begun_;        // a window has ended
  size_t received_;   // at the start of the window
};

}  // namespace loft
