// Reports of misuse: one line on standard error. Reporting does not allocate.
#pragma once

#include "base/atomic.h"
#include "base/macros.h"
#include "base/text.h"

namespace loft::os {

void report(const Text& what);              // "loft: WHAT\n", as `on_text` does
void misuse(const Text& what);              // as `on_misuse` does
[[noreturn]] void fault(const Text& what);  // the same, and stops the program
// At first `report`, write_error. Release and acquire: who finds another function finds it ready.
extern constinit LOFT_HIDDEN Atomic<void (*)(const Text&)> on_misuse;
extern constinit LOFT_HIDDEN Atomic<void (*)(const char* text, size_t bytes)> on_text;

}  // namespace loft::os

// Checks an invariant stated beside a struct, in debug builds only.
#define LOFT_CHECK(condition)                                                                 \
  do {                                                                                        \
    if (::loft::kDebug && LOFT_UNLIKELY(!(condition))) {                                      \
      ::loft::os::fault(::loft::Text() << "broken invariant: " #condition " at " __FILE__ ":" \
                                       << uint64_t{__LINE__});                                \
    }                                                                                         \
  } while (false)
