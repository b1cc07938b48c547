// A pause between purges of an excess. Faulting a page in again costs some ten times as much as
// purging it. With the pause, a program that frees and allocates the same memory again and again
// loses part of its time to this, and not nearly all.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "os/os.h"

namespace loft {

class PurgePause {
 public:
  // Calls `purge`, unless the last call was too recent: false. At once if memory is `scarce`:
  // others need it now.
  template <class Purge>
  bool purge_or_wait(bool scarce, Purge purge) {
    constexpr uint64_t kPause = 64;  // times the duration of the purge
    const uint64_t begin = os::now_ns();
    if (!scarce && begin < next_.load(memory_order_relaxed)) return false;
    purge();
    const uint64_t end = os::now_ns();
    next_.store(end + kPause * (end - begin), memory_order_relaxed);
    return true;
  }

 private:
  Atomic<uint64_t> next_{0};  // relaxed: two purges at a time do no harm
};

}  // namespace loft
