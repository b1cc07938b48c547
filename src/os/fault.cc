#include "os/fault.h"

#include "os/os.h"

namespace loft::os {

constinit Atomic<void (*)(const Text&)> on_misuse{report};
constinit Atomic<void (*)(const char*, size_t)> on_text{write_error};

void report(const Text& what) {
  char line[sizeof("loft: \n") + Text::kCapacity] = "loft: ";
  __builtin_memcpy(line + 6, what.data(), what.size());
  line[6 + what.size()] = '\n';
  on_text.load(memory_order_acquire)(line, 7 + what.size());  // whole, beside other threads'
}

void misuse(const Text& what) { on_misuse.load(memory_order_acquire)(what); }

void fault(const Text& what) {
  misuse(what);
  abort_process();
}

}  // namespace loft::os
