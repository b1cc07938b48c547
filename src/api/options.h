// Setting the options of base/options.h from text: the environment, the symbol `loft_options`, the
// API. Nothing here allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/options.h"

namespace loft {

enum class OptionError { kNone, kUnknownName, kBadValue, kFixed };

// Sets one option. A value that the option does not accept leaves it as it was.
OptionError set_option(std::string_view name, std::string_view value);

// The same for a program that runs: what is read only when the library is loaded stays as it is.
OptionError change_option(std::string_view name, std::string_view value);

// The option's value as text, cut at `size` bytes including the closing NUL. Returns the length
// that the whole text has, 0 for an unknown name.
size_t option_text(std::string_view name, char* text, size_t size);

// "name=value,name=value"; empty items are skipped. `source` is how a warning names the list.
void set_options_from_list(std::string_view list, const char* source);

// The symbol `loft_options`, then the environment. What is not accepted is reported in one line.
void load_options();

}  // namespace loft
