// The directory: the inbox of each heap id. Heaps are never unmapped and ids are never reused for
// another heap, so an inbox found here is always valid to write to.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/macros.h"
#include "remote/message.h"
#include "space/pagemap.h"

namespace loft {

class Inbox;
struct Chain;

inline constexpr unsigned kMaxHeaps = kNeverOwner;  // ids 1 .. kMaxHeaps - 1

// Acquire pairs with the release store in the heap's creation: the inbox is constructed.
extern LOFT_HIDDEN Atomic<Inbox*> directory[kMaxHeaps];

// The owner of the carrier's slab. Acquire: its inbox is then found in the directory, even if the
// owner is younger than the object.
inline HeapId destination(const Message* message) { return pagemap.acquire(message).owner(); }

// Pushes a chain into the inbox of its first message's owner. Stops the program if that message has
// no owner.
void deliver(Chain chain);

}  // namespace loft
