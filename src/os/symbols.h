// Changes the result of the program loader's lookup of a name in the C library.
#pragma once

#include <cstddef>

namespace loft::os {

struct Symbol {
  const char* name;
  const void* meaning;
};

// From now on, a lookup of one of these functions in the C library finds the given meaning. Names
// that are already bound stay bound. Any thread may call it. A repeated call changes nothing. False
// if the system does not permit writing to the table, this time.
bool rename_in_libc(const Symbol* symbols, size_t count);

// Whether this is the library that is loaded, and not a part of a program. False where that is not
// known.
bool is_own_library();

}  // namespace loft::os
