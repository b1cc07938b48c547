// Which threads are the program's, and what they have of loft.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/macros.h"

namespace loft::census {

// Of the calling thread.
enum Stage : uint8_t {
  kNone,       // it has not called, or has a block
  kBlockless,  // it uses processors' blocks, and is counted
  kExited,     // its destructors have run; or it is loft's own
};
extern LOFT_HIDDEN LOFT_TLS_INITIAL_EXEC __thread Stage stage;

// Written under lifecycle's lock.
extern LOFT_HIDDEN Counter started;
extern LOFT_HIDDEN Counter exited;
extern LOFT_HIDDEN Counter blockless;  // now: that have called and use processors' blocks

// The calling thread is loft's own: it gets no block, and counts as none of the program's.
inline void do_without_block() { stage = kExited; }

// Whether two or more threads of the program that have called are there.
inline bool has_other_threads() { return started.get() - exited.get() + blockless.get() >= 2; }

}  // namespace loft::census
