#include "malloc/policy.h"

#include "base/sealed.h"

namespace loft {

LOFT_SEALED constinit Atomic<const Policies*> policies{&core_policies};

bool use(const Policies& chosen) {
  const Policies* const rows = &chosen;
  // Relaxed: whoever chooses does it alone.
  if (policies.load(memory_order_relaxed) == rows) return true;
  return write_sealed(&policies, &rows, sizeof(uintptr_t));
}

}  // namespace loft
