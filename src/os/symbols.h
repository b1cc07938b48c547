// What the program loader finds when it looks a name up in the C library.
#pragma once

#include <cstddef>

namespace loft::os {

struct Symbol {
  const char* name;
  const void* meaning;
};

// From now on whoever looks one of these functions up in the C library finds what is given here;
// what was bound before stays as it is. Any thread, and again, which changes nothing. False if the
// system does not let anybody write to the table, this time.
bool rename_in_libc(const Symbol* symbols, size_t count);

}  // namespace loft::os
