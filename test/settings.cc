// In every program of unit, surface and storm: the settings that the environment asks for, and
// whether they are in force.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

#include "control.h"
#include "heap/registry.h"
#include "loft/loft.h"

namespace {

// LOFT_TEST_KEYED=1 keys messages before the first test, as a hardened library does when it is
// loaded.
[[gnu::constructor]] void key_messages() {
  if (std::getenv("LOFT_TEST_KEYED") != nullptr) loft::registry::key_messages();
}

// LOFT_TEST_EXPECT="owner=cpu,hardened=full": no test of the program runs otherwise. A library
// that ignores its environment would pass all tests of all variants. The program ends at once,
// since GoogleTest would skip its tests.
class Settings : public testing::Environment {
 public:
  void SetUp() override {
    const char* const expected = std::getenv("LOFT_TEST_EXPECT");
    std::istringstream settings(expected == nullptr ? "" : expected);
    for (std::string setting; std::getline(settings, setting, ',');) {
      const size_t sign = setting.find('=');
      char value[64] = "";
      if (sign != std::string::npos &&
          loft_option_get(setting.substr(0, sign).c_str(), value, sizeof(value)) == 0 &&
          value == setting.substr(sign + 1)) {
        continue;
      }
      std::fprintf(stderr, "LOFT_TEST_EXPECT: %s is not in force, but '%s'\n", setting.c_str(),
                   value);
      std::exit(1);
    }
  }

  void TearDown() override {
    if (!testing::UnitTest::GetInstance()->Passed()) {
      std::printf("LOFT_TEST_SEED=%llu\n", static_cast<unsigned long long>(loft::test::seed()));
    }
  }
};

[[maybe_unused]] const testing::Environment* const settings =
    testing::AddGlobalTestEnvironment(new Settings);

}  // namespace
