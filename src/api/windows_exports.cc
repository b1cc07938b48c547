#include "api/windows_exports.h"

#include <string.h>
#include <windows.h>

#include "base/bits.h"

namespace loft::modules {

namespace {

template <class T>
T* in(void* module, size_t offset) {
  return reinterpret_cast<T*>(static_cast<unsigned char*>(module) + offset);
}

const IMAGE_NT_HEADERS* headers(void* module) {
  const auto* const first = static_cast<const IMAGE_DOS_HEADER*>(module);
  if (first->e_magic != IMAGE_DOS_SIGNATURE) return nullptr;
  const auto* const found =
      in<const IMAGE_NT_HEADERS>(module, static_cast<size_t>(first->e_lfanew));
  return found->Signature == IMAGE_NT_SIGNATURE ? found : nullptr;
}

const IMAGE_DATA_DIRECTORY* directory(void* module, unsigned which) {
  const IMAGE_NT_HEADERS* const found = headers(module);
  if (found == nullptr || which >= found->OptionalHeader.NumberOfRvaAndSizes) return nullptr;
  const IMAGE_DATA_DIRECTORY* const part = &found->OptionalHeader.DataDirectory[which];
  return part->VirtualAddress == 0 || part->Size == 0 ? nullptr : part;
}

// The place in the table of exports that says where a function is, so far behind the module's
// beginning. nullptr if there is none, or another module has it.
DWORD* export_of(void* module, const char* name) {
  const IMAGE_DATA_DIRECTORY* const part = directory(module, IMAGE_DIRECTORY_ENTRY_EXPORT);
  if (part == nullptr) return nullptr;
  const auto* const table = in<const IMAGE_EXPORT_DIRECTORY>(module, part->VirtualAddress);
  const auto* const names = in<const DWORD>(module, table->AddressOfNames);
  const auto* const numbers = in<const WORD>(module, table->AddressOfNameOrdinals);
  auto* const functions = in<DWORD>(module, table->AddressOfFunctions);
  for (DWORD i = 0; i < table->NumberOfNames; ++i) {
    if (strcmp(in<const char>(module, names[i]), name) != 0) continue;
    DWORD* const found = &functions[numbers[i]];
    const bool is_forward = *found - part->VirtualAddress < part->Size;
    return is_forward || *found == 0 ? nullptr : found;
  }
  return nullptr;
}

// Writes a word that is read-only. Where linkers put tables beside code, other threads may be in
// it.
template <class T>
bool write(T* place, T value) {
  constexpr DWORD kExecutes =
      PAGE_EXECUTE | PAGE_EXECUTE_READ | PAGE_EXECUTE_READWRITE | PAGE_EXECUTE_WRITECOPY;
  MEMORY_BASIC_INFORMATION found;
  if (VirtualQuery(place, &found, sizeof(found)) == 0) return false;
  const DWORD how = (found.Protect & kExecutes) != 0 ? PAGE_EXECUTE_READWRITE : PAGE_READWRITE;
  DWORD before = 0;
  if (!VirtualProtect(place, sizeof(T), how, &before)) return false;
  // Whole, for threads that read it: relaxed, they find one function or the other.
  __atomic_store_n(place, value, __ATOMIC_RELAXED);
  VirtualProtect(place, sizeof(T), before, &before);
  return true;
}

// A page within 4 GiB behind the module.
unsigned char* page_behind(void* module) {
  constexpr uintptr_t kStep = uintptr_t{1} << 16;
  const uintptr_t begin = round_up(
      reinterpret_cast<uintptr_t>(module) + headers(module)->OptionalHeader.SizeOfImage, kStep);
  const uintptr_t end = reinterpret_cast<uintptr_t>(module) + (uintptr_t{1} << 32) - kStep;
  MEMORY_BASIC_INFORMATION found;
  for (uintptr_t at = begin; at < end;) {
    if (VirtualQuery(reinterpret_cast<void*>(at), &found, sizeof(found)) == 0) return nullptr;
    if (found.State == MEM_FREE) {
      void* const page = VirtualAlloc(reinterpret_cast<void*>(at), kStep, MEM_RESERVE | MEM_COMMIT,
                                      PAGE_READWRITE);
      if (page != nullptr) return static_cast<unsigned char*>(page);
    }
    at = round_up(reinterpret_cast<uintptr_t>(found.BaseAddress) + found.RegionSize, kStep);
  }
  return nullptr;
}

// jmp *(the address behind it)
constexpr unsigned char kJump[] = {0xff, 0x25, 0, 0, 0, 0};
constexpr size_t kJumpBytes = 16;

}  // namespace

void find_all(void* module, Replaced* functions, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const DWORD* const found = export_of(module, functions[i].name);
    functions[i].former = found == nullptr ? nullptr : in<void>(module, *found);
  }
}

bool replace_exports(void* module, const Replaced* functions, size_t count) {
  unsigned char* const page = page_behind(module);
  if (page == nullptr) return false;
  const size_t bytes = count * kJumpBytes;
  for (size_t i = 0; i < count; ++i) {
    unsigned char* const at = page + i * kJumpBytes;
    memcpy(at, kJump, sizeof(kJump));
    memcpy(at + sizeof(kJump), &functions[i].replacement, sizeof(void*));
  }
  DWORD before = 0;
  if (!VirtualProtect(page, bytes, PAGE_EXECUTE_READ, &before)) {
    VirtualFree(page, 0, MEM_RELEASE);
    return false;
  }
  FlushInstructionCache(GetCurrentProcess(), page, bytes);
  bool done = true;
  for (size_t i = 0; i < count; ++i) {
    DWORD* const place = export_of(module, functions[i].name);
    if (place == nullptr) continue;
    const auto distance = page + i * kJumpBytes - static_cast<unsigned char*>(module);
    done = write(place, static_cast<DWORD>(distance)) && done;
  }
  return done;
}

void replace_imports(void* module, const Replaced* functions, size_t count) {
  const IMAGE_DATA_DIRECTORY* const part = directory(module, IMAGE_DIRECTORY_ENTRY_IMPORT);
  if (part == nullptr) return;
  for (auto* of = in<const IMAGE_IMPORT_DESCRIPTOR>(module, part->VirtualAddress); of->Name != 0;
       ++of) {
    for (auto* import = in<void*>(module, of->FirstThunk); *import != nullptr; ++import) {
      for (size_t i = 0; i < count; ++i) {
        if (*import != functions[i].former) continue;
        write(import, functions[i].replacement);
        break;
      }
    }
  }
}

}  // namespace loft::modules
