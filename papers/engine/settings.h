// The parameters of an engine that are chosen when a program starts: environment variables. A value
// that cannot be is one line on standard error, and the end of the process.
#pragma once

#include <cstddef>
#include <cstdint>

namespace engine {

// nullptr if it is not set.
const char* variable_of(const char* name);

// The value of the variable, a plain number or one with K, M or G behind it; `otherwise` if it is
// not set. `what` says what it may be, for the line. Both limits belong to the range.
uint64_t setting(const char* variable, uint64_t otherwise, uint64_t least, uint64_t most,
                 const char* what);

// The position of the variable's value among `words`, which ends with nullptr; `otherwise` if it is
// not set.
unsigned choice(const char* variable, unsigned otherwise, const char* const* words);

// The line and the end, for a value that a caller cannot use.
[[noreturn]] void refuse(const char* variable, const char* value, const char* what);

}  // namespace engine
