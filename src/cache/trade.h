// Whether threads free each other's objects all the time, as those that share a table or a queue
// do. Then an object that goes home comes back in other hands soon, for the price of two messages
// and two refills; who freed it may as well hand it out itself. Not so where a thread was given
// objects once: sent home, they make room for its own, which it frees on the fast path.
//
// The two differ in what comes home meanwhile. So nothing is kept for a window; if enough of the
// thread's own objects were received in it, others are kept for some windows, and then the question
// is asked again. (Who asks while others keep receives less: most of the threads that trade keep,
// at any time.) Whoever frees fewer than two windows of others' objects never keeps any: the first
// one tells how much an earlier thread had received with the same heap.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "base/size_class.h"
#include "heap/heap.h"

namespace loft {

// Objects of which no two threads can come to write one cache line. Larger ones are few in a slab
// and in a bin: kept, they keep slabs from becoming free.
constexpr bool is_tradable(SizeClass c) { return fills_cache_lines(c) && class_size(c) <= 1024; }

// All zero is the beginning. Of one thread.
class Trade {
 public:
  static constexpr uint32_t kWindow = 1 << 14;  // tradable objects that came to no open batch
  static constexpr uint32_t kEnough = kWindow / 4;
  static constexpr uint32_t kKeeping = 15;  // windows, after one in which it received enough

  // Counts such an object, which the thread freed: whether to keep it. `own`: of its heap.
  bool keeps(const HeapCounters& own) {
    if (LOFT_UNLIKELY(++seen_ == kWindow)) end_window(own);
    return keeping_ != 0;
  }

 private:
  void end_window(const HeapCounters& own) {
    unsigned long received = 0;
    for (SizeClass c = 0; c < kSizeClasses; ++c) {
      if (is_tradable(c)) received += own.classes[c].received.get();
    }
    seen_ = 0;
    if (keeping_ != 0) {
      --keeping_;
    } else if (begun_ && received - received_ >= kEnough) {
      keeping_ = kKeeping;
    }
    received_ = received;
    begun_ = true;
  }

  uint32_t seen_;           // in this window
  uint16_t keeping_;        // windows to go
  bool begun_;              // a window has ended
  unsigned long received_;  // when the window began
};

}  // namespace loft
