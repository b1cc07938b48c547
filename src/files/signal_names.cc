#include "files/signal_names.h"

#include <signal.h>

#include "base/text.h"

namespace loft::files {

namespace {

struct Named {
  std::string_view name;  // with SIG before it
  int number;
};
// Not SIGTERM, which files/last_signal.h is about, nor SIGCHLD and others that each program gets.
constexpr Named kNamed[] = {
    {"SIGHUP", SIGHUP},   {"SIGINT", SIGINT},     {"SIGQUIT", SIGQUIT}, {"SIGUSR1", SIGUSR1},
    {"SIGUSR2", SIGUSR2}, {"SIGALRM", SIGALRM},   {"SIGURG", SIGURG},   {"SIGVTALRM", SIGVTALRM},
    {"SIGPROF", SIGPROF}, {"SIGWINCH", SIGWINCH}, {"SIGIO", SIGIO},     {"SIGPWR", SIGPWR},
};

bool is_for_real_time(uint64_t number) {
  return number >= static_cast<uint64_t>(SIGRTMIN) && number <= static_cast<uint64_t>(SIGRTMAX);
}

bool is_name(const Named& named, std::string_view text) {
  std::string_view without = named.name;
  without.remove_prefix(3);
  return text == named.name || text == without;
}

}  // namespace

bool signal_number(std::string_view text, uint64_t& number) {
  uint64_t asked = 0;
  const bool is_number = parse_number(text, asked);
  for (const Named& named : kNamed) {
    if (is_number ? asked != static_cast<uint64_t>(named.number) : !is_name(named, text)) continue;
    number = static_cast<uint64_t>(named.number);
    return true;
  }
  number = asked;
  return is_number && is_for_real_time(asked);
}

}  // namespace loft::files
