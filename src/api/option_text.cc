#include "api/option_text.h"

#include <string.h>

#include "base/bits.h"
#include "base/macros.h"
#include "base/text.h"
#include "files/signal_names.h"
#include "loft/loft.h"
#include "os/fault.h"
#include "os/os.h"
#include "space/metadata.h"
#include "space/span.h"

// Not const, although loft never assigns it: a program's own definition replaces it.
[[gnu::weak]] const char* loft_options = nullptr;

namespace loft {

namespace {

// string_view's own substr can throw, and so would need the C++ library.
std::string_view head(std::string_view text, size_t size) {
  return {text.data(), least(size, text.size())};
}
std::string_view tail(std::string_view text, size_t from) {
  from = least(from, text.size());
  return {text.data() + from, text.size() - from};
}

bool parse_bytes(std::string_view text, uint64_t& bytes) {
  unsigned shift = 0;
  if (!text.empty()) {
    switch (text.back()) {
      case 'K':
      case 'k':
        shift = 10;
        break;
      case 'M':
      case 'm':
        shift = 20;
        break;
      case 'G':
      case 'g':
        shift = 30;
        break;
      default:
        break;
    }
    if (shift != 0) text = head(text, text.size() - 1);
  }
  return parse_number(text, bytes) && !__builtin_mul_overflow(bytes, uint64_t{1} << shift, &bytes);
}

// Calls `visit(position, word)` for each word of "word|word" until it returns true.
template <class Visit>
bool any_choice(std::string_view choices, Visit visit) {
  for (uint64_t position = 0;; ++position) {
    const size_t bar = choices.find('|');
    if (visit(position, head(choices, bar))) return true;
    if (bar == choices.npos) return false;
    choices = tail(choices, bar + 1);
  }
}

// A copy of a path for the option, which stays for ever. False if it is too long, or without
// memory.
bool keep_path(std::string_view text, uint64_t& value) {
  constexpr size_t kLongest = 4096;
  value = 0;
  if (text.empty() || text == "none") return true;
  if (text.size() >= kLongest || !span::initialise()) return false;
  auto* const copy = static_cast<char*>(metadata::allocate(text.size() + 1));
  if (copy == nullptr) return false;
  memcpy(copy, text.data(), text.size());  // the rest is zero
  value = reinterpret_cast<uintptr_t>(copy);
  return true;
}

LOFT_AT_LOAD bool parse(const Option& option, std::string_view text, uint64_t& value) {
  if (option.kind == OptionKind::kFile) return keep_path(text, value);
  if (option.kind == OptionKind::kBytes) return parse_bytes(text, value);
  if (option.kind == OptionKind::kMilliseconds) return parse_number(text, value);
  if (option.kind == OptionKind::kSignal) {
    value = 0;
    return text == "none" || text == "0" || files::signal_number(text, value);
  }
  return any_choice(option.choices, [&](uint64_t position, std::string_view word) {
    if (word == text) value = position;
    return word == text;
  });
}

bool strictest(const Option& option, uint64_t& value) {
  return !option.strict.empty() && parse(option, option.strict, value);
}

// Long enough for any sensible value, and short enough for the rest of the line.
constexpr size_t kQuoted = 80;

Text& append_quoted(Text& text, std::string_view part) {
  text << "'" << head(part, kQuoted);
  return text << (part.size() > kQuoted ? "...'" : "'");
}

// Takes a value that is not understood for the strictest one, if the option has that. `source` as
// the user wrote it: a variable's name, or the list and the option in it.
Text refuse_value(std::string_view source, const Option& option, std::string_view value) {
  Text line;
  line << source << "=";
  append_quoted(line, value);
  if (uint64_t strict = 0; strictest(option, strict)) {
    option.value->store(strict, memory_order_relaxed);  // a choice: a number by itself
    line << " is read as " << option.strict << ", which is stricter: accepted is ";
  } else {
    line << " is ignored: accepted is ";
  }
  if (option.kind == OptionKind::kBytes) {
    line << "a number of bytes, with K, M or G behind it if wanted";
  } else if (option.kind == OptionKind::kMilliseconds) {
    line << "a number of milliseconds";
  } else if (option.kind == OptionKind::kFile) {
    line << "a path of less than 4096 bytes";
  } else if (option.kind == OptionKind::kSignal) {
    line << "a signal's name such as USR2, its number, or none";
  } else {
    line << option.choices;
  }
  return line;
}

Text refuse_name(std::string_view source, std::string_view name) {
  Text line;
  line << source << ": ";
  append_quoted(line, name);
  return line << " is no option of loft; see docs/options.md";
}

constexpr std::string_view kPrefix = "LOFT_";

// Whether it is the option's name in capitals.
LOFT_AT_LOAD bool is_variable_of(const Option& option, std::string_view name) {
  if (name.size() != option.name.size()) return false;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = option.name[i];
    if (name[i] != (c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c)) return false;
  }
  return true;
}

// `entry`: "LOFT_NAME=value". The first of a name counts, as for getenv; a bit of `taken` says for
// each option that it was there. What is no option may be a variable of somebody else's.
LOFT_AT_LOAD void take_variable(void* taken, const char* entry) {
  const std::string_view all = entry;
  const size_t equals = all.find('=');
  if (equals == all.npos) return;
  const std::string_view name = tail(head(all, equals), kPrefix.size());
  const std::string_view value = tail(all, equals + 1);
  uint64_t bit = 1;
  for (const Option& option : kOptionTable) {
    if (is_variable_of(option, name)) {
      auto& had = *static_cast<uint64_t*>(taken);
      // A shell unsets a variable for one command by an empty value.
      if ((had & bit) == 0 && !value.empty() &&
          set_option(option.name, value) == OptionError::kBadValue) {
        os::report(refuse_value(head(all, equals), option, value));
      }
      had |= bit;
      return;
    }
    bit <<= 1;
  }
}

}  // namespace

LOFT_AT_LOAD const Option* find_option(std::string_view name) {
  for (const Option& option : kOptionTable) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

bool is_strictest(const Option& option, uint64_t value) {
  uint64_t strict = 0;
  return strictest(option, strict) && value == strict;
}

LOFT_AT_LOAD OptionError set_option(std::string_view name, std::string_view value) {
  const Option* option = find_option(name);
  if (option == nullptr) return OptionError::kUnknownName;
  uint64_t parsed = 0;
  if (!parse(*option, value, parsed)) return OptionError::kBadValue;
  option->value->store(parsed, memory_order_release);  // see path_of
  return OptionError::kNone;
}

OptionError change_option(std::string_view name, std::string_view value) {
  const Option* option = find_option(name);
  if (option != nullptr && (option->value == &options.owner || option->value == &options.hardened ||
                            option->value == &options.hardened_required)) {
    return OptionError::kFixed;
  }
  return set_option(name, value);
}

bool is_path(std::string_view name) {
  const Option* option = find_option(name);
  return option != nullptr && option->kind == OptionKind::kFile;
}

namespace {

// Returns the whole length.
size_t copy_out(std::string_view whole, char* text, size_t size) {
  if (size != 0) {
    const size_t fits = least(whole.size(), size - 1);
    memcpy(text, whole.data(), fits);
    text[fits] = 0;
  }
  return whole.size();
}

}  // namespace

size_t option_text(std::string_view name, char* text, size_t size) {
  const Option* option = find_option(name);
  if (option == nullptr) return 0;
  const uint64_t value = loft::get(*option->value);
  Text whole;
  if (option->kind == OptionKind::kFile) {
    const char* const path = path_of(*option->value);
    return path == nullptr ? copy_out("none", text, size) : copy_out(path, text, size);
  }
  if (option->kind == OptionKind::kSignal && value == 0) {
    whole << "none";
  } else if (option->kind != OptionKind::kChoice) {
    whole << value;
  } else {
    any_choice(option->choices, [&](uint64_t position, std::string_view word) {
      if (position == value) whole << word;
      return position == value;
    });
  }
  return copy_out({whole.data(), whole.size()}, text, size);
}

Text set_option_from(std::string_view source, std::string_view name, std::string_view value) {
  // Its user chooses the folder that a relative path begins at, and may have put a link where the
  // path leads. Nothing is told: what the program writes is read by others who did not ask.
  if (is_path(name) && os::has_more_rights()) return {};
  switch (set_option(name, value)) {
    case OptionError::kNone:
      return {};
    case OptionError::kUnknownName:
      return refuse_name(source, name);
    default:
      break;
  }
  Text where;
  where << source << ": " << name;
  return refuse_value({where.data(), where.size()}, *find_option(name), value);
}

void set_options_from_list(std::string_view list, const char* source) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    const std::string_view item = head(list, comma);
    list = comma == list.npos ? std::string_view() : tail(list, comma + 1);
    if (item.empty()) continue;

    const size_t equals = item.find('=');
    const std::string_view name = head(item, equals);
    const std::string_view value = tail(item, equals == item.npos ? equals : equals + 1);
    const Text complaint = set_option_from(source, name, value);
    if (complaint.size() != 0) os::report(complaint);
  }
}

LOFT_AT_LOAD void load_options() {
  if (loft_options != nullptr) set_options_from_list(loft_options, "loft_options");
  uint64_t taken = 0;
  os::visit_environment(kPrefix.data(), take_variable, &taken);
}

}  // namespace loft
