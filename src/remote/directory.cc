#include "remote/directory.h"

#include "os/fault.h"
#include "remote/inbox.h"

namespace loft {

constinit Atomic<Inbox*> directory[kMaxHeaps];

void deliver(Chain chain) {
  Inbox* const inbox = directory[destination(chain.first)].load(memory_order_acquire);
  // No owner: the carrier's slab became empty and was released while the message was in transit. So
  // its objects had been returned by another message.
  if (LOFT_UNLIKELY(inbox == nullptr)) {
    os::fault(Text() << "double free of " << static_cast<const void*>(chain.first)
                     << ": it had come home when it was sent there");
  }
  inbox->push(chain);
}

}  // namespace loft
