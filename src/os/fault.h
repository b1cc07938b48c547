// Reports of misuse: one line on standard error. Reporting does not allocate.
#pragma once

#include "base/macros.h"
#include "base/text.h"

namespace loft::os {

void report(const Text& what);              // "loft: WHAT\n"
[[noreturn]] void fault(const Text& what);  // reports, then stops the program

}  // namespace loft::os

// Checks an invariant stated beside a struct, in debug builds only.
#define LOFT_CHECK(condition)                                                                 \
  do {                                                                                        \
    if (::loft::kDebug && LOFT_UNLIKELY(!(condition))) {                                      \
      ::loft::os::fault(::loft::Text() << "broken invariant: " #condition " at " __FILE__ ":" \
                                       << uint64_t{__LINE__});                                \
    }                                                                                         \
  } while (false)
