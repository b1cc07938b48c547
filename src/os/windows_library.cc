#include <windows.h>

#include "os/symbols.h"

// Set by the linker: where the module that loft is in begins.
extern "C" IMAGE_DOS_HEADER __ImageBase;

namespace loft::os {

bool is_own_library() {
  return GetModuleHandleA(nullptr) != reinterpret_cast<HMODULE>(&__ImageBase);
}

}  // namespace loft::os
