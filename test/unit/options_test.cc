// Options from text: values, lists, the environment, what is said about the wrong ones.
#include <errno.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>
#include <utility>

#include "api/option_text.h"
#include "base/options.h"
#include "loft/loft.h"

// The program's own definition, which takes the place of the library's weak one.
const char* loft_options = "dirty_bytes=5M,,cache_bytes=7K,nonsense=1,stats=loud";

namespace loft {
namespace {

class OptionsTest : public testing::Test {
 protected:
  // Every test starts from the defaults and leaves them behind.
  void SetUp() override { reset(); }
  void TearDown() override { reset(); }

  static void reset() {
#define LOFT_RESET(kind, name, value, choices, help) options.name.store(value);
    LOFT_OPTIONS(LOFT_RESET)
#undef LOFT_RESET
  }

  // What load_options() writes to standard error.
  static std::string load() {
    testing::internal::CaptureStderr();
    load_options();
    return testing::internal::GetCapturedStderr();
  }
};

TEST_F(OptionsTest, Bytes) {
  const std::pair<const char*, uint64_t> values[] = {{"0", 0},
                                                     {"1", 1},
                                                     {"12345", 12345},
                                                     {"1K", 1 << 10},
                                                     {"3k", 3 << 10},
                                                     {"64M", 64 << 20},
                                                     {"2m", 2 << 20},
                                                     {"1G", 1 << 30},
                                                     {"16g", 16ull << 30},
                                                     {"18446744073709551615", UINT64_MAX},
                                                     {"007", 7}};
  for (const auto& [text, bytes] : values) {
    EXPECT_EQ(set_option("cache_bytes", text), OptionError::kNone) << text;
    EXPECT_EQ(get(options.cache_bytes), bytes) << text;
  }
}

TEST_F(OptionsTest, BadBytesChangeNothing) {
  ASSERT_EQ(set_option("cache_bytes", "4711"), OptionError::kNone);
  for (const char* text :
       {"", " ", "K", "-1", "+1", "1 ", " 1", "1KB", "1KK", "0x10", "1.5M", "much",
        "18446744073709551616", "18014398509481984K", "99999999999999999999G"}) {
    EXPECT_EQ(set_option("cache_bytes", text), OptionError::kBadValue) << text;
    EXPECT_EQ(get(options.cache_bytes), 4711u) << text;
  }
}

TEST_F(OptionsTest, Choices) {
  EXPECT_EQ(set_option("stats", "text"), OptionError::kNone);
  EXPECT_EQ(get(options.stats), 1u);
  EXPECT_EQ(set_option("stats", "json"), OptionError::kNone);
  EXPECT_EQ(get(options.stats), 2u);
  for (const char* text : {"", "2", "jso", "jsonx", "JSON", "0|1", "|", "1 "}) {
    EXPECT_EQ(set_option("stats", text), OptionError::kBadValue) << text;
    EXPECT_EQ(get(options.stats), 2u);
  }
  EXPECT_EQ(set_option("stats", "off"), OptionError::kNone);
  EXPECT_EQ(get(options.stats), 0u);
}

TEST_F(OptionsTest, UnknownNames) {
  for (const char* name : {"", "stat", "statss", "STATS", "cache_bytes ", "LOFT_STATS"}) {
    EXPECT_EQ(set_option(name, "1"), OptionError::kUnknownName) << name;
    char text[8];
    EXPECT_EQ(option_text(name, text, sizeof(text)), 0u) << name;
  }
}

TEST_F(OptionsTest, TextRoundTrips){
#define LOFT_ROUND_TRIP(kind, name, value, choices, help)                    \
  {                                                                          \
    char text[64];                                                           \
    const size_t length = option_text(#name, text, sizeof(text));            \
    ASSERT_EQ(length, std::string(text).size()) << #name;                    \
    const uint64_t before = get(options.name);                               \
    EXPECT_EQ(set_option(#name, text), OptionError::kNone) << #name << text; \
    EXPECT_EQ(get(options.name), before);                                    \
  }
    LOFT_OPTIONS(LOFT_ROUND_TRIP)
#undef LOFT_ROUND_TRIP
}

TEST_F(OptionsTest, TextIsCutWithAClosingNul) {
  ASSERT_EQ(set_option("cache_bytes", "123456"), OptionError::kNone);
  char text[] = "xxxxxxxx";
  EXPECT_EQ(option_text("cache_bytes", text, 4), 6u);
  EXPECT_STREQ(text, "123");
  EXPECT_EQ(option_text("cache_bytes", text, 0), 6u);
  EXPECT_EQ(text[4], 'x');
  EXPECT_EQ(option_text("cache_bytes", text, 7), 6u);
  EXPECT_STREQ(text, "123456");
}

TEST_F(OptionsTest, Lists) {
  testing::internal::CaptureStderr();
  set_options_from_list("stats=json,cache_bytes=1M", "a list");
  set_options_from_list("", "a list");
  set_options_from_list(",,decay_ms=8,", "a list");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(get(options.stats), 2u);
  EXPECT_EQ(get(options.cache_bytes), 1u << 20);
  EXPECT_EQ(get(options.decay_ms), 8u);
}

TEST_F(OptionsTest, BadListItemsAreReportedAndSkipped) {
  testing::internal::CaptureStderr();
  set_options_from_list("cache_bytes,colour=red,stats=loud,decay_ms=4", "a list");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(
      said,
      "loft: a list: cache_bytes='' is ignored: accepted is a number of bytes, with K, M or G "
      "behind it if wanted\n"
      "loft: a list: 'colour' is no option of loft; see docs/options.md\n"
      "loft: a list: stats='loud' is ignored: accepted is off|text|json|prometheus\n");
  EXPECT_EQ(get(options.decay_ms), 4u);
}

TEST_F(OptionsTest, SymbolOfTheProgram) {
  const std::string said = load();
  EXPECT_EQ(get(options.dirty_bytes), 5u << 20);
  EXPECT_EQ(get(options.cache_bytes), 7u << 10);
  EXPECT_NE(said.find("loft_options: 'nonsense'"), std::string::npos) << said;
  EXPECT_NE(said.find("loft_options: stats='loud'"), std::string::npos) << said;
}

class EnvironmentTest : public OptionsTest {
 protected:
  void SetUp() override {
    OptionsTest::SetUp();
    symbol_ = loft_options;
    loft_options = nullptr;
  }
  void TearDown() override {
    loft_options = symbol_;
    for (const char* name : {"LOFT_STATS", "LOFT_CACHE_BYTES", "LOFT_DIRTY_BYTES"}) unsetenv(name);
    OptionsTest::TearDown();
  }

 private:
  const char* symbol_ = nullptr;
};

TEST_F(EnvironmentTest, NothingSetSaysNothing) {
  EXPECT_EQ(load(), "");
  EXPECT_EQ(get(options.stats), 0u);
}

TEST_F(EnvironmentTest, Variables) {
  setenv("LOFT_STATS", "json", 1);
  setenv("LOFT_CACHE_BYTES", "256K", 1);
  EXPECT_EQ(load(), "");
  EXPECT_EQ(get(options.stats), 2u);
  EXPECT_EQ(get(options.cache_bytes), 256u << 10);
}

TEST_F(EnvironmentTest, EmptyIsUnset) {
  setenv("LOFT_STATS", "", 1);
  EXPECT_EQ(load(), "");
  EXPECT_EQ(get(options.stats), 0u);
}

TEST_F(EnvironmentTest, BadValueNamesVariableValueAndWhatIsAccepted) {
  setenv("LOFT_STATS", "yes", 1);
  setenv("LOFT_CACHE_BYTES", "12Q", 1);
  const std::string said = load();
  EXPECT_NE(said.find("loft: LOFT_STATS='yes' is ignored: accepted is off|text|json|prometheus\n"),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("loft: LOFT_CACHE_BYTES='12Q' is ignored: accepted is a number of bytes"),
            std::string::npos)
      << said;
  EXPECT_EQ(get(options.stats), 0u);
}

TEST_F(EnvironmentTest, TheStricterReadingOfNonsense) {
  loft_options = "misuse=continue";
  setenv("LOFT_MISUSE", "perhaps", 1);
  const std::string said = load();
  unsetenv("LOFT_MISUSE");
  EXPECT_EQ(said,
            "loft: LOFT_MISUSE='perhaps' is read as stop, which is stricter: accepted is "
            "stop|continue\n");
  EXPECT_EQ(get(options.misuse), 0u);
  // Who asks by a call gets an answer.
  ASSERT_EQ(loft_option_set("misuse", "continue"), 0);
  EXPECT_EQ(loft_option_set("misuse", "perhaps"), EINVAL);
  EXPECT_EQ(get(options.misuse), 1u);
}

TEST_F(EnvironmentTest, LongValueIsCut) {
  setenv("LOFT_STATS", std::string(10'000, 'v').c_str(), 1);
  const std::string said = load();
  EXPECT_LT(said.size(), 200u);
  EXPECT_NE(said.find("vvv...' is ignored: accepted is off|text|json|prometheus\n"),
            std::string::npos)
      << said;
}

TEST_F(EnvironmentTest, ChoosesTheOwner) {
  setenv("LOFT_OWNER", "cpu", 1);
  EXPECT_EQ(load(), "");
  EXPECT_EQ(get(options.owner), uint64_t{kOwnerCpu});
}

TEST_F(EnvironmentTest, AnUnknownOwnerIsIgnored) {
  setenv("LOFT_OWNER", "room", 1);
  EXPECT_EQ(load(), "loft: LOFT_OWNER='room' is ignored: accepted is thread|cpu|shared\n");
  EXPECT_EQ(get(options.owner), uint64_t{kOwnerThread});
}

TEST_F(OptionsTest, TheOwnerIsFixed) {
  EXPECT_EQ(loft_option_set("owner", "cpu"), EPERM);
  EXPECT_EQ(loft_option_set("owner", "nonsense"), EPERM);
  EXPECT_EQ(get(options.owner), uint64_t{kOwnerThread});
}

TEST_F(EnvironmentTest, OutranksTheSymbol) {
  loft_options = "dirty_bytes=1M,stats=text";
  setenv("LOFT_DIRTY_BYTES", "2M", 1);
  EXPECT_EQ(load(), "");
  EXPECT_EQ(get(options.dirty_bytes), 2u << 20);
  EXPECT_EQ(get(options.stats), 1u);
}

}  // namespace
}  // namespace loft
