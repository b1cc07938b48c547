// What the program loader finds when it looks a name up in the C library.
#pragma once

#include <cstddef>

namespace loft::os {

struct Symbol {
  const char* name;
  const void* meaning;
};

// From now on whoever looks one of these functions up in the C library finds what is given here;
// what was bound before stays as it is. False if the C library has no table of names (a static
// program), or the system lets nobody write to it: then nothing has changed. Not for two threads
// at once.
bool rename_in_libc(const Symbol* symbols, size_t count);

}  // namespace loft::os
