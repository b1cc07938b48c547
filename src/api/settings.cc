#include "api/settings.h"

#include <string.h>

#include <iterator>
#include <string_view>

#include "api/option_text.h"
#include "base/macros.h"
#include "files/trusted.h"
#include "os/fault.h"

namespace loft {

namespace {

// A file of anything else, put there by mistake, is not told in full by every process.
constexpr unsigned kMostTold = 8;

std::string_view without_spaces(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\v\f";
  while (!text.empty() && kSpaces.find(text.front()) != kSpaces.npos) text.remove_prefix(1);
  while (!text.empty() && kSpaces.find(text.back()) != kSpaces.npos) text.remove_suffix(1);
  return text;
}

class Settings {
 public:
  explicit Settings(const char* path) : path_(path) {}

  static void visit(void* settings, const files::TrustedLine& line) {
    static_cast<Settings*>(settings)->take(line);
  }

  LOFT_AT_LOAD void finish(const char* trouble) {
    if (untold_ != 0) {
      os::report(Text() << path_ << ": " << untold_ << " more lines are not accepted");
    }
    if (trouble != nullptr) os::report(Text() << path_ << " is ignored: " << trouble);
  }

 private:
  void take(const files::TrustedLine& line) {
    const std::string_view text = without_spaces(line.text);
    if (text.empty() || text.front() == '#') return;
    Text where;
    where << path_ << ":" << line.number;
    const size_t equals = text.find('=');
    if (!line.whole || equals == text.npos) {
      where << (line.whole ? ": a line is NAME=VALUE, or begins with #" : ": the line is too long");
      return tell(where);
    }
    std::string_view name = text;
    name.remove_suffix(text.size() - equals);
    std::string_view value = text;
    value.remove_prefix(equals + 1);
    set(where, without_spaces(name), without_spaces(value), line.number);
  }

  void set(Text& where, std::string_view name, std::string_view value, uint64_t number) {
    const Option* const option = find_option(name);
    const uint64_t before = option == nullptr ? 0 : get(*option->value);
    const Text complaint = set_option_from({where.data(), where.size()}, name, value);
    if (complaint.size() != 0) {
      tell(complaint);
      if (option == nullptr || option->strict.empty()) return;  // nothing was set
    }
    uint32_t& line = lines_[option - kOptionTable];
    if (line != 0 && !same(*option, before)) {
      // Whoever wrote one of the two lines did not see the other.
      const bool was_strict = is_strictest(*option, before);
      tell(where << ": " << option->name << " contradicts line " << uint64_t{line}
                 << (was_strict ? ", which is stricter, and counts" : "; this line counts"));
      if (was_strict) {
        option->value->store(before, memory_order_relaxed);  // a choice: a number by itself
        return;
      }
    }
    line = static_cast<uint32_t>(number);
  }

  // Whether the option has still that value. Paths are compared by what they say.
  static bool same(const Option& option, uint64_t before) {
    const uint64_t now = get(*option.value);
    if (now == before || option.kind != OptionKind::kFile) return now == before;
    return now != 0 && before != 0 && strcmp(text_at(now), text_at(before)) == 0;
  }
  static const char* text_at(uint64_t value) { return reinterpret_cast<const char*>(value); }

  void tell(const Text& line) {
    if (told_ == kMostTold) {
      ++untold_;
      return;
    }
    ++told_;
    os::report(line);
  }

  const char* path_;
  unsigned told_ = 0;
  uint64_t untold_ = 0;
  uint32_t lines_[std::size(kOptionTable)] = {};  // on which each option was set; 0: not yet
};

}  // namespace

void set_options_from_file(const char* path, unsigned owner) {
  if (*path == 0) return;
  Settings settings(path);
  settings.finish(files::visit_trusted(path, owner, Settings::visit, &settings));
}

}  // namespace loft
