// Sets the options of base/options.h from text: the system's file (api/settings.h), the symbol
// `loft_options`, the environment, the API. Nothing here allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/options.h"
#include "base/text.h"

namespace loft {

struct Option {
  OptionKind kind;
  std::string_view name;
  Atomic<uint64_t>* value;
  std::string_view choices;
  std::string_view strict;  // the strictest choice; "" if none is stricter than another
};

constexpr std::string_view strictest_choice(std::string_view name) {
#define LOFT_STRICT_ROW(option, choice) \
  if (name == #option) return #choice;
  LOFT_STRICT_CHOICES(LOFT_STRICT_ROW)
#undef LOFT_STRICT_ROW
  return {};
}

inline constexpr Option kOptionTable[] = {
#define LOFT_OPTION_ROW(kind, name, value, choices, help) \
  {OptionKind::kind, #name, &options.name, choices, strictest_choice(#name)},
    LOFT_OPTIONS(LOFT_OPTION_ROW)
#undef LOFT_OPTION_ROW
};

const Option* find_option(std::string_view name);  // nullptr for an unknown name

// Whether that is the value of the option's strictest choice; false if it has none.
bool is_strictest(const Option& option, uint64_t value);

enum class OptionError { kNone, kUnknownName, kBadValue, kFixed };

// Sets one option. A rejected value leaves it unchanged.
OptionError set_option(std::string_view name, std::string_view value);

// The same while the program runs. kFixed: `owner`, which is read only at load, stays unchanged.
OptionError change_option(std::string_view name, std::string_view value);

// Whether the option is a path.
bool is_path(std::string_view name);

// As set_option, for text that nobody gets an answer to. Returns what is to be reported: nothing,
// or a line that begins with `source` and says what is not accepted. A value that is not understood
// is then taken for the option's strictest choice, if it has one. A program with more rights than
// its user takes no path from there.
Text set_option_from(std::string_view source, std::string_view name, std::string_view value);

// Writes the option's value as text, truncated to `size` bytes including the closing NUL. Returns
// the length of the whole text; 0 for an unknown name.
size_t option_text(std::string_view name, char* text, size_t size);

// "name=value,name=value"; empty items are skipped. `source` names the list in warnings.
void set_options_from_list(std::string_view list, const char* source);

// Reads the symbol `loft_options`, then the environment. Reports each rejected item in one line.
void load_options();

}  // namespace loft
