#include "remote/directory.h"

#include "os/fault.h"

namespace loft {

constinit Atomic<Inbox*> directory[kMaxHeaps];

void deliver(Chain chain) {
  Inbox* const inbox = directory[destination(chain.first)].load(memory_order_acquire);
  // Its slab became empty, and went, while it was on its way: somebody else had brought it home.
  if (LOFT_UNLIKELY(inbox == nullptr)) {
    os::fault(Text() << "double free of " << static_cast<const void*>(chain.first)
                     << ": it had come home when it was sent there");
  }
  inbox->push(chain);
}

}  // namespace loft
