// The parser of options: one value, a list of them, a file, or the environment. Each value is as
// before, or what a second, plain parser makes of the text; and its text, given back, is the same
// value.
#include "api/option_text.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "api/settings.h"
#include "base/options.h"
#include "bytes.h"
#include "files/signal_names.h"

namespace {

using loft::OptionKind;

struct Option {
  OptionKind kind;
  std::string name;
  loft::Atomic<uint64_t>* value;
  uint64_t initial;
  std::string choices;
};

const Option kAll[] = {
#define LOFT_OPTION_ROW(kind, name, value, choices, help) \
  {OptionKind::kind, #name, &loft::options.name, value, choices},
    LOFT_OPTIONS(LOFT_OPTION_ROW)
#undef LOFT_OPTION_ROW
};

// Those with a value of their own. That of a path is where its text lies.
const std::vector<Option> kOptions = [] {
  std::vector<Option> found;
  for (const Option& option : kAll) {
    if (option.kind != OptionKind::kFile) found.push_back(option);
  }
  return found;
}();
const size_t kCount = kOptions.size();

using Values = std::vector<uint64_t>;

Values values() {
  Values all;
  for (const Option& option : kOptions) all.push_back(loft::get(*option.value));
  return all;
}

// Digits, and at most as many as the largest number has behind leading zeros.
bool plain_number(std::string text, unsigned shift, uint64_t& number) {
  if (text.empty() || text.find_first_not_of("0123456789") != text.npos) return false;
  text.erase(0, std::min(text.find_first_not_of('0'), text.size()));
  if (text.size() > 20) return false;
  __extension__ unsigned __int128 n = 0;
  for (const char c : text) n = n * 10 + static_cast<unsigned>(c - '0');
  n <<= shift;
  number = static_cast<uint64_t>(n);
  return n <= UINT64_MAX;
}

bool accepted(const Option& option, std::string text, uint64_t& value) {
  unsigned shift = 0;
  if (option.kind == OptionKind::kChoice) {
    const std::string words = "|" + option.choices + "|";
    const size_t at = text.find('|') == text.npos ? words.find("|" + text + "|") : words.npos;
    if (at == words.npos) return false;
    value = static_cast<uint64_t>(
        std::count(words.begin(), words.begin() + static_cast<long>(at), '|'));
    return true;
  }
  if (option.kind == OptionKind::kSignal) {
    value = 0;
    return text == "none" || text == "0" || loft::files::signal_number(text, value);
  }
  if (option.kind == OptionKind::kBytes && !text.empty()) {
    const size_t suffix = std::string_view("KkMmGg").find(text.back());
    if (suffix != std::string_view::npos) {
      shift = 10 * (static_cast<unsigned>(suffix) / 2 + 1);
      text.pop_back();
    }
  }
  return plain_number(text, shift, value);
}

// What stays, or is set, where a text is not accepted that nobody gets an answer to.
uint64_t without_answer(const Option& option, uint64_t before) {
#define LOFT_STRICT_ROW(strict, choice)                  \
  if (uint64_t value = 0; option.name == #strict) {      \
    return accepted(option, #choice, value) ? value : 0; \
  }
  LOFT_STRICT_CHOICES(LOFT_STRICT_ROW)
#undef LOFT_STRICT_ROW
  return before;
}

// What the option holds, as text, is accepted and changes nothing; cut short, it ends in time.
void check_text(const Option& option) {
  const uint64_t before = loft::get(*option.value);
  char text[64];
  const size_t length = loft::option_text(option.name, text, sizeof(text));
  if (length == 0 || length >= sizeof(text) || text[length] != 0) {
    fuzz::wrong("%s has no text for %lu", option.name.c_str(), before);
  }
  if (loft::set_option(option.name, text) != loft::OptionError::kNone ||
      loft::get(*option.value) != before) {
    fuzz::wrong("%s: %lu is written as %s", option.name.c_str(), before, text);
  }
  std::string cut(length / 2 + 1, 'x');
  loft::option_text(option.name, cut.data(), cut.size());
  if (cut != std::string(text, length / 2) + '\0') fuzz::wrong("%s: text cut badly", text);
}

void expect(const Option& option, uint64_t value) {
  if (loft::get(*option.value) == value) return;
  fuzz::wrong("%s is %lu and not %lu", option.name.c_str(), loft::get(*option.value), value);
}

void set_one(const Option& option, const std::string& text) {
  uint64_t value = 0;
  const bool good = accepted(option, text, value);
  if (!good) value = loft::get(*option.value);
  const auto error = loft::set_option(option.name, text);
  if ((error == loft::OptionError::kNone) != good) {
    fuzz::wrong("%s=%s: taken or refused wrongly", option.name.c_str(), text.c_str());
  }
  expect(option, value);
}

// The last accepted value of a name counts.
void set_list(std::string list) {
  Values expected = values();
  loft::set_options_from_list(list, "fuzz");
  for (list += ','; !list.empty(); list.erase(0, list.find(',') + 1)) {
    const std::string item = list.substr(0, list.find(','));
    const size_t equals = item.find('=');
    const std::string text = equals == item.npos ? "" : item.substr(equals + 1);
    for (size_t i = 0; i < kCount; ++i) {
      uint64_t value = 0;
      if (item.empty() || item.substr(0, equals) != kOptions[i].name) continue;
      const bool good = accepted(kOptions[i], text, value);
      expected[i] = good ? value : without_answer(kOptions[i], expected[i]);
    }
  }
  for (size_t i = 0; i < kCount; ++i) expect(kOptions[i], expected[i]);
}

std::string trimmed(const std::string& text) {
  constexpr char kSpaces[] = " \t\r\v\f";
  const size_t begin = text.find_first_not_of(kSpaces);
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin);
}

// A file of lines. The last accepted value counts, except after the strictest one.
void set_file(const std::string& text) {
  char path[] = "/tmp/fuzz-options-XXXXXX";
  const int file = mkstemp(path);
  if (file < 0 || write(file, text.data(), text.size()) < 0) abort();
  close(file);
  Values expected = values();
  std::vector<bool> set(kCount);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line = trimmed(line);
    const size_t equals = line.find('=');
    if (line.starts_with('#') || equals == line.npos) continue;
    for (size_t i = 0; i < kCount; ++i) {
      if (trimmed(line.substr(0, equals)) != kOptions[i].name) continue;
      constexpr uint64_t kNone = UINT64_MAX;
      const uint64_t strict = without_answer(kOptions[i], kNone);
      uint64_t value = 0;
      if (!accepted(kOptions[i], trimmed(line.substr(equals + 1)), value)) {
        if (strict == kNone) continue;
        value = strict;
      }
      if (!(set[i] && strict != kNone && expected[i] == strict)) expected[i] = value;
      set[i] = true;
    }
  }
  loft::set_options_from_file(path, geteuid());
  unlink(path);
  for (size_t i = 0; i < kCount; ++i) expect(kOptions[i], expected[i]);
}

void load(const Option& option, const std::string& text) {
  std::string variable = "LOFT_";
  for (const char c : option.name) variable += static_cast<char>(toupper(c));
  uint64_t value = 0;
  // The environment's texts end at the first NUL; an empty one stands for none.
  const std::string seen = text.c_str();
  if (!accepted(option, seen, value)) {
    value = loft::get(*option.value);
    if (!seen.empty()) value = without_answer(option, value);
  }
  setenv(variable.c_str(), seen.c_str(), 1);
  loft::load_options();
  unsetenv(variable.c_str());
  expect(option, value);
}

}  // namespace

// Texts, each with NUL behind it, and two bytes before it: what is done with it, for which option.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (const Option& option : kAll) option.value->store(option.initial);
  fuzz::Bytes bytes(data, size);
  while (!bytes.empty()) {
    const uint8_t how = bytes.byte();
    const Option& option = kOptions[bytes.byte() % kCount];
    if (how >= 0xC0) {
      set_file(bytes.text(0));
      continue;
    }
    switch (how % 4) {
      case 0:
        set_list(bytes.text(0));
        break;
      case 1:
        load(option, bytes.text(0));
        break;
      case 2: {
        const std::string name = bytes.text('=');
        const bool known = std::any_of(std::begin(kAll), std::end(kAll),
                                       [&](const Option& other) { return other.name == name; });
        const auto error = loft::set_option(name, bytes.text(0));
        if ((error == loft::OptionError::kUnknownName) == known) fuzz::wrong("%s", name.c_str());
        break;
      }
      default:
        set_one(option, bytes.text(0));
        break;
    }
    for (const Option& each : kOptions) check_text(each);
  }
  return 0;
}
