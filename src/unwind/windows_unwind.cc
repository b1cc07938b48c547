// Stacks on Windows: the system follows them, by the tables that each module has for exceptions.
#include <windows.h>

#include "unwind/unwind.h"

// Set by the linker: where the module that loft is in begins.
extern "C" IMAGE_DOS_HEADER __ImageBase;

namespace loft::unwind {

namespace {

constexpr size_t kMost = 62;  // what the system takes on all its versions

bool is_library() { return GetModuleHandleA(nullptr) != reinterpret_cast<HMODULE>(&__ImageBase); }

uintptr_t own_bytes() {
  const auto* const begin = reinterpret_cast<const unsigned char*>(&__ImageBase);
  const auto* const header =
      reinterpret_cast<const IMAGE_NT_HEADERS*>(begin + __ImageBase.e_lfanew);
  return header->OptionalHeader.SizeOfImage;
}

}  // namespace

bool prepare() { return true; }

bool is_own_code(uintptr_t pc) {
  return pc - reinterpret_cast<uintptr_t>(&__ImageBase) < own_bytes() && is_library();
}

size_t capture(uintptr_t* frames, size_t most, bool) {
  void* found[kMost];
  const size_t depth = RtlCaptureStackBackTrace(1, kMost, found, nullptr);
  size_t count = 0;
  for (size_t i = 0; i < depth && count < most; ++i) {
    const auto pc = reinterpret_cast<uintptr_t>(found[i]);
    if (count != 0 || !is_own_code(pc)) frames[count++] = pc;
  }
  return count;
}

}  // namespace loft::unwind
