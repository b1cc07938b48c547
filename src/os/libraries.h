// What the loader is asked for. Each function takes its lock, and may allocate.
#pragma once

namespace loft::os {

// Whether the program finds a function of that name elsewhere than here, or one of its libraries
// other than the C++ library has one of its own.
bool is_of_another(const char* function);

// Keeps the library or plugin that contains loft in memory when it is closed: its objects may be in
// use then, and threads call loft when they end. libloft.so is linked so; a plugin's own link
// cannot be counted on.
void stay_loaded();

// What a library has under a name: it is opened for good, and shows its names to nobody else.
// nullptr, and why not: a text that is valid until the thread asks the loader again.
const void* open_for_good(const char* path, const char* name, const char** why);

}  // namespace loft::os
