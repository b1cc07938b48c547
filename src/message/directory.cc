#include "message/directory.h"

namespace loft {

constinit Atomic<Inbox*> directory[kMaxHeaps];

void deliver(Chain chain) {
  directory[destination(chain.first)].load(memory_order_acquire)->push(chain);
}

}  // namespace loft
