// What is mapped into the process, by the system's own list of pages. Of a module the name is that
// of its file, and offsets count from where it was loaded.
#include <windows.h>

#include "files/mappings.h"
#include "files/output.h"

namespace loft::files {

namespace {

constexpr size_t kNameBytes = 1024;

// Asks for no module by its handle's count, so it waits for no lock of the loader's.
size_t name_of_module(uintptr_t module, char* name) {
  return GetModuleFileNameA(reinterpret_cast<HMODULE>(module), name, kNameBytes - 1);
}

bool is_one_of(DWORD protection, DWORD set) { return (protection & set) != 0; }

}  // namespace

bool visit_mappings(VisitMapping visit, void* context) {
  const DWORD saved = GetLastError();
  auto* const name = static_cast<char*>(borrow(kNameBytes));
  if (name == nullptr) return false;
  uintptr_t module = 0;
  size_t name_bytes = 0;
  MEMORY_BASIC_INFORMATION found;
  for (uintptr_t at = 0; VirtualQuery(reinterpret_cast<void*>(at), &found, sizeof(found)) != 0;) {
    const auto begin = reinterpret_cast<uintptr_t>(found.BaseAddress);
    const uintptr_t end = begin + found.RegionSize;
    if (end <= at) break;
    at = end;
    if (found.State != MEM_COMMIT) continue;
    const auto allocation = reinterpret_cast<uintptr_t>(found.AllocationBase);
    if (found.Type == MEM_IMAGE && allocation != module) {
      module = allocation;
      name_bytes = name_of_module(module, name);
    }
    const bool is_image = found.Type == MEM_IMAGE;
    constexpr DWORD kWrites =
        PAGE_READWRITE | PAGE_WRITECOPY | PAGE_EXECUTE_READWRITE | PAGE_EXECUTE_WRITECOPY;
    constexpr DWORD kExecutes =
        PAGE_EXECUTE | PAGE_EXECUTE_READ | PAGE_EXECUTE_READWRITE | PAGE_EXECUTE_WRITECOPY;
    const bool is_guarded = is_one_of(found.Protect, PAGE_GUARD | PAGE_NOACCESS);
    Mapping mapping = {};
    mapping.begin = begin;
    mapping.end = end;
    mapping.offset = is_image ? begin - allocation : 0;
    mapping.name = is_image ? name : "";
    mapping.name_bytes = is_image ? name_bytes : 0;
    mapping.readable = !is_guarded;
    mapping.writable = !is_guarded && is_one_of(found.Protect, kWrites);
    mapping.executable = !is_guarded && is_one_of(found.Protect, kExecutes);
    mapping.shared = found.Type == MEM_MAPPED;
    visit(context, mapping);
  }
  give_back(name, kNameBytes);
  SetLastError(saved);
  return true;
}

}  // namespace loft::files
