// Changes what names of a module mean, for modules that are loaded and for those that come.
#pragma once

#include <cstddef>
#include <cstdint>

namespace loft::modules {

// A function of a module, and what stands in its place. `former` is null if the module has none.
struct Replaced {
  const char* name;
  void* replacement;
  void* former;
};

// Finds the functions in the module's table of exports.
void find_all(void* module, Replaced* functions, size_t count);

// From now on who asks the loader for the module's function gets the replacement: modules that are
// loaded later, and GetProcAddress. An entry of the table reaches 4 GiB behind the module, so there
// a page gets jumps. False if the system has no such page, or does not let it be written.
bool replace_exports(void* module, const Replaced* functions, size_t count);

// In what the module has imported, replaces each function that is one of these.
void replace_imports(void* module, const Replaced* functions, size_t count);

}  // namespace loft::modules
