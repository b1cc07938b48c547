// Where messages go: the inbox of each heap id. Heaps are never unmapped and ids never reused for
// another heap, so an inbox found here can be written to at any time.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/macros.h"
#include "remote/inbox.h"
#include "space/pagemap.h"

namespace loft {

inline constexpr unsigned kMaxHeaps = kNeverOwner;  // ids 1 .. kMaxHeaps - 1

// Acquire pairs with the release store of the heap's creator: the inbox is constructed.
extern LOFT_HIDDEN Atomic<Inbox*> directory[kMaxHeaps];

// Owner of the slab that a carrier lies in.
inline HeapId destination(const Message* message) { return pagemap.acquire(message).owner(); }

// Posts a chain to the owner of its first message. One exchange. Stops the program where nobody
// owns that.
void deliver(Chain chain);

}  // namespace loft
