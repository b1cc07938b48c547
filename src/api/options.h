// Sets the options of base/options.h from text: the environment, the symbol `loft_options`, the
// API. Nothing here allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/options.h"

namespace loft {

enum class OptionError { kNone, kUnknownName, kBadValue, kFixed };

// Sets one option. A rejected value leaves it unchanged.
OptionError set_option(std::string_view name, std::string_view value);

// The same while the program runs. kFixed: `owner`, which is read only at load, stays unchanged.
OptionError change_option(std::string_view name, std::string_view value);

// Whether the option is a path.
bool is_path(std::string_view name);

// Writes the option's value as text, truncated to `size` bytes including the closing NUL. Returns
// the length of the whole text; 0 for an unknown name.
size_t option_text(std::string_view name, char* text, size_t size);

// "name=value,name=value"; empty items are skipped. `source` names the list in warnings.
void set_options_from_list(std::string_view list, const char* source);

// Reads the symbol `loft_options`, then the environment. Reports each rejected item in one line.
void load_options();

}  // namespace loft
