#include "engine/settings.h"

#include <unistd.h>

#include <string_view>

#include "base/text.h"
#include "os/fault.h"
#include "os/os.h"

namespace engine {

[[noreturn]] void refuse(const char* variable, const char* value, const char* what) {
  loft::os::report(loft::Text() << variable << "=" << value << ": must be " << what);
  _exit(2);
}

const char* variable_of(const char* name) {
  struct Search {
    const char* name;
    const char* value;
  } search{name, nullptr};
  const auto look = [](void* context, const char* entry) {
    auto& wanted = *static_cast<Search*>(context);
    const char* const rest = loft::after(wanted.name, entry);
    if (*rest == '=' && wanted.value == nullptr) wanted.value = rest + 1;
  };
  loft::os::visit_environment(name, look, &search);
  return search.value;
}

uint64_t setting(const char* variable, uint64_t otherwise, uint64_t least, uint64_t most,
                 const char* what) {
  const char* const value = variable_of(variable);
  if (value == nullptr) return otherwise;
  std::string_view text = value;
  unsigned shift = 0;
  constexpr std::string_view kSuffixes = "KMG";
  if (!text.empty()) {
    for (unsigned i = 0; i < kSuffixes.size(); ++i) {
      if (text.back() == kSuffixes[i]) shift = 10 * (i + 1);
    }
    if (shift != 0) text = {text.data(), text.size() - 1};
  }
  uint64_t number = 0;
  if (!loft::parse_number(text, number) || number > most >> shift) refuse(variable, value, what);
  number <<= shift;
  if (number < least) refuse(variable, value, what);
  return number;
}

unsigned choice(const char* variable, unsigned otherwise, const char* const* words) {
  const char* const value = variable_of(variable);
  if (value == nullptr) return otherwise;
  loft::Text all;
  for (unsigned i = 0; words[i] != nullptr; ++i) {
    if (std::string_view(value) == words[i]) return i;
    all << (i == 0 ? "" : ", ") << words[i];
  }
  refuse(variable, value, all.data());
}

}  // namespace engine
