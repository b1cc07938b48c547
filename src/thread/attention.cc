#include "thread/attention.h"

namespace loft::attention {

constinit Atomic<uint32_t> state{kNobody};
constinit Atomic<void (*)()> unattended{nullptr};
constinit Atomic<void (*)()> on_thread_end{nullptr};

}  // namespace loft::attention
