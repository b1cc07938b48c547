// Counts the program's threads, and records the calling thread's stage of use of loft.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/macros.h"

namespace loft::census {

// The stage of the calling thread.
enum Stage : uint8_t {
  kNone,       // has not called loft, or has a block
  kBlockless,  // uses processors' blocks and is counted
  kExited,     // its destructors have run, or would not be told; or the thread is loft's own
};
extern LOFT_HIDDEN LOFT_TLS __thread Stage stage;

// Written under the lock in lifecycle.cc.
extern LOFT_HIDDEN Counter started;
extern LOFT_HIDDEN Counter exited;
extern LOFT_HIDDEN Counter blockless;  // threads that now use processors' blocks

// Marks the calling thread as one that gets no block, as loft's own. It is not counted as the
// program's.
inline void do_without_cache() { stage = kExited; }

// Whether at least two of the program's live threads have called loft.
inline bool has_other_threads() { return started.get() - exited.get() + blockless.get() >= 2; }

}  // namespace loft::census
