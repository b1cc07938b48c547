// Changes the result of the program loader's lookup of a name in the C library.
#pragma once

#include <cstddef>
#include <cstdint>

namespace loft::os {

struct Symbol {
  const char* name;
  const void* meaning;
};

// From now on, a lookup of one of these functions in the C library finds the given meaning. Names
// that are already bound stay bound. Any thread may call it. A repeated call changes nothing. False
// if the system does not permit writing to the table, this time.
bool rename_in_libc(const Symbol* symbols, size_t count);

// A function of the C library of that name, whoever else defines one. 0: it has none, or is linked
// statically.
struct Wanted {
  const char* name;
  uintptr_t found;
};
// For those that are 0. Takes a lock of the loader, and allocates nothing.
void find_in_libc(Wanted* wanted, size_t count);

// Whether this is the library that is loaded, and not a part of a program. False where that is not
// known.
bool is_own_library();

// Whether the name, which has another address in the process than loft's own function has, is
// another function's. It is not if the program only has a place of its own that leads to loft's, as
// a program has that is linked without PIE and takes the function's address. It takes the loader's
// lock.
bool has_another(const char* name);

// What the loader is asked for. Each function takes its lock, and may allocate.

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
