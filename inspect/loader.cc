#include "inspect/loader.h"

// The linker leads calls of these names to __wrap_*, and __real_* is what they were
// (CMakeLists.txt).
extern "C" {
// Null before glibc 2.35.
[[gnu::weak]] int __real__dl_find_object(void* pc, loft::inspect::FoundObject* found);
int __wrap__dl_find_object(void* pc, loft::inspect::FoundObject* found);
int __wrap_dl_iterate_phdr(void* visit, void* closure);
}

namespace loft::inspect {

bool has_finder() { return __real__dl_find_object != nullptr; }

bool find_object(uintptr_t pc, FoundObject* found) {
  return has_finder() && __real__dl_find_object(reinterpret_cast<void*>(pc), found) == 0;
}

}  // namespace loft::inspect

// For libgcc, some of which reads the header without a look whether there is one.
extern "C" int __wrap__dl_find_object(void* pc, loft::inspect::FoundObject* found) {
  const bool has = loft::inspect::find_object(reinterpret_cast<uintptr_t>(pc), found);
  return has && found->header != nullptr ? 0 : -1;
}

// A libgcc that was built beside an older glibc asks this way, under the loader's lock: it finds
// nothing, and `begin` says so.
extern "C" int __wrap_dl_iterate_phdr(void*, void*) { return 0; }
