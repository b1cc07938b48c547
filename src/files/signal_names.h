// Signals by name.
#pragma once

#include <cstdint>
#include <string_view>

namespace loft::files {

// The number of a signal that a program may be told something by: "USR2", "SIGUSR2" or "12", and
// those for real time by number. False for any other text, and for signals that report faults, that
// end a process whatever it does, or that stop one.
bool signal_number(std::string_view text, uint64_t& number);

}  // namespace loft::files
