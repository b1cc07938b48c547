// In every program of unit, surface and storm: the settings that the environment asks for, and
// whether they are in force.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
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

// LOFT_TEST_EXPECT="owner=core,hardened=full": no test of the program runs otherwise. A library
// that ignores its environment would pass all tests of all variants.
class Settings : public testing::Environment {
 public:
  void SetUp() override {
    const char* const expected = std::getenv("LOFT_TEST_EXPECT");
    std::istringstream settings(expected == nullptr ? "" : expected);
    for (std::string setting; std::getline(settings, setting, ',');) {
      const size_t sign = setting.find('=');
      ASSERT_NE(sign, std::string::npos) << setting;
      char value[64];
      ASSERT_EQ(loft_option_get(setting.substr(0, sign).c_str(), value, sizeof(value)), 0)
          << setting;
      ASSERT_EQ(value, setting.substr(sign + 1)) << setting;
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
