#include "os/symbols.h"

namespace loft::os {

// Only libloft.so has it: os/linux_symbols.cc.
[[gnu::weak]] bool is_defined_before(const char* name);

bool is_own_library() { return is_defined_before != nullptr; }

bool has_another(const char* name) { return !is_own_library() || is_defined_before(name); }

}  // namespace loft::os
