#include "os/fault.h"

#include "os/os.h"

namespace loft::os {

constinit Atomic<void (*)(const Text&)> on_misuse{report};

void report(const Text& what) {
  // One write for the whole line keeps the lines of several threads apart.
  char line[sizeof("loft: \n") + Text::kCapacity] = "loft: ";
  __builtin_memcpy(line + 6, what.data(), what.size());
  line[6 + what.size()] = '\n';
  write_error(line, 7 + what.size());
}

void misuse(const Text& what) { on_misuse.load(memory_order_acquire)(what); }

void fault(const Text& what) {
  misuse(what);
  abort_process();
}

}  // namespace loft::os
