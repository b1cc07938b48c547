#include "os/fault.h"

#include "os/os.h"

namespace loft::os {

void report(const Text& what) {
  // One write for the whole line keeps the lines of several threads apart.
  char line[sizeof("loft: \n") + Text::kCapacity];
  size_t size = 0;
  for (const char* c = "loft: "; *c != 0; ++c) line[size++] = *c;
  for (size_t i = 0; i < what.size(); ++i) line[size++] = what.data()[i];
  line[size++] = '\n';
  write_error(line, size);
}

void fault(const Text& what) {
  report(what);
  abort_process();
}

}  // namespace loft::os
