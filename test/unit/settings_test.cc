// The file of settings for a whole system: whom it is taken from, how it is read, what it sets.
#include "api/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "api/option_text.h"
#include "files/trusted.h"
#include "loft/loft.h"

// The program's own definition, which takes the place of the library's weak one.
const char* loft_options = nullptr;

namespace loft {
namespace {

class SettingsTest : public testing::Test {
 protected:
  void SetUp() override {
    reset();
    std::string pattern = std::filesystem::temp_directory_path() / "loft-settings-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = folder_ + "/loft.conf";
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
    reset();
  }

  static void reset() {
#define LOFT_RESET(kind, name, value, choices, help) options.name.store(value);
    LOFT_OPTIONS(LOFT_RESET)
#undef LOFT_RESET
  }

  void put(const std::string& text, mode_t mode = 0644) const {
    std::ofstream(path_) << text;
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
  }

  // What reading the file writes to standard error, with the path left out.
  std::string set(unsigned owner = geteuid()) const {
    testing::internal::CaptureStderr();
    set_options_from_file(path_.c_str(), owner);
    std::string said = testing::internal::GetCapturedStderr();
    for (size_t at; (at = said.find(path_)) != said.npos;) said.replace(at, path_.size(), "FILE");
    return said;
  }

  struct Seen {
    const char* trouble;
    std::vector<std::string> lines;
    std::vector<uint64_t> cut;  // the numbers of those that are too long
  };
  Seen read(unsigned owner = geteuid()) const {
    Seen seen = {};
    const auto visit = [](void* context, const files::TrustedLine& line) {
      auto& to = *static_cast<Seen*>(context);
      to.lines.emplace_back(line.text);
      if (!line.whole) to.cut.push_back(line.number);
    };
    errno = 4711;
    seen.trouble = files::visit_trusted(path_.c_str(), owner, visit, &seen);
    EXPECT_EQ(errno, 4711);
    return seen;
  }
  std::string refused() const {
    const Seen seen = read();
    EXPECT_TRUE(seen.lines.empty());
    return seen.trouble == nullptr ? "" : seen.trouble;
  }

  std::string folder_;
  std::string path_;
};

size_t open_files() {
  size_t count = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    count += each.exists() ? 1 : 0;
  }
  return count;
}

TEST_F(SettingsTest, NoFileIsNoTrouble) {
  EXPECT_EQ(refused(), "");
  EXPECT_EQ(set(), "");
  path_ = folder_ + "/no/such/folder";
  EXPECT_EQ(set(), "");
  set_options_from_file("");
}

TEST_F(SettingsTest, Lines) {
  put("one\n\n three \r\nlast");
  const Seen seen = read();
  EXPECT_EQ(seen.trouble, nullptr);
  EXPECT_EQ(seen.lines, (std::vector<std::string>{"one", "", " three \r", "last"}));
  EXPECT_TRUE(seen.cut.empty());
}

TEST_F(SettingsTest, LinesOfAllLengths) {
  for (size_t length = 0; length < 3 * files::kLongestTrustedLine; length += 61) {
    const std::string line(length, 'x');
    put("a\n" + line + "\nb\n");
    const Seen seen = read();
    ASSERT_EQ(seen.lines.size(), 3u) << length;
    EXPECT_EQ(seen.lines[0] + seen.lines[2], "ab") << length;
    const bool fits = length < files::kLongestTrustedLine;
    EXPECT_EQ(seen.lines[1], fits ? line : line.substr(0, files::kLongestTrustedLine)) << length;
    EXPECT_EQ(seen.cut, fits ? std::vector<uint64_t>() : std::vector<uint64_t>{2}) << length;
  }
}

TEST_F(SettingsTest, TheLongestFile) {
  std::string text(files::kLongestTrusted, '#');
  for (size_t end = 63; end < text.size(); end += 64) text[end] = '\n';
  put(text);
  EXPECT_EQ(read().lines.size(), files::kLongestTrusted / 64);
  put(text + "\n");
  EXPECT_EQ(refused(), "it is longer than 64 KiB");
}

TEST_F(SettingsTest, WhatOthersMayWriteIsRefused) {
  for (const mode_t mode : {0664, 0646, 0666, 0620, 0602}) {
    put("stats=text\n", mode);
    EXPECT_EQ(refused(), "others than its owner may write to it");
    EXPECT_EQ(set(), "loft: FILE is ignored: others than its owner may write to it\n");
  }
  put("stats=text\n", 0600);
  EXPECT_EQ(set(), "");
  EXPECT_EQ(get(options.stats), 1u);
}

TEST_F(SettingsTest, WhatIsSomebodyElsesIsRefused) {
  put("stats=text\n");
  EXPECT_EQ(set(geteuid() + 1), geteuid() + 1 == 0
                                    ? "loft: FILE is ignored: root does not own it\n"
                                    : "loft: FILE is ignored: it has another owner\n");
  EXPECT_EQ(get(options.stats), 0u);
}

TEST_F(SettingsTest, WhatIsNoFileIsRefused) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);  // nobody writes to it, and nobody waits for that
  EXPECT_EQ(refused(), "it is no regular file");
  ASSERT_EQ(unlink(path_.c_str()), 0);
  ASSERT_EQ(mkdir(path_.c_str(), 0700), 0);
  EXPECT_EQ(refused(), "it is no regular file");
  ASSERT_EQ(rmdir(path_.c_str()), 0);
  ASSERT_EQ(symlink("/dev/null", path_.c_str()), 0);
  EXPECT_EQ(refused(), "it is a symbolic link");
}

TEST_F(SettingsTest, LeavesNoFileOpen) {
  const size_t before = open_files();
  put("stats=text\n");
  set();
  put("stats=text\n", 0666);
  set();
  EXPECT_EQ(open_files(), before);
}

TEST_F(SettingsTest, NamesAndValues) {
  put("# a comment\n"
      "  # and another, with = in it\n"
      "\n"
      "stats=json\n"
      "\tcache_bytes = 1M \r\n"
      "profile_file=/tmp/a #b=c");
  EXPECT_EQ(set(), "");
  EXPECT_EQ(get(options.stats), 2u);
  EXPECT_EQ(get(options.cache_bytes), 1u << 20);
  EXPECT_STREQ(path_of(options.profile_file), "/tmp/a #b=c");
}

TEST_F(SettingsTest, WhatIsNotAcceptedIsToldWithItsLine) {
  put(std::string("stats\n"
                  "colour=red\n"
                  "stats=loud\n"
                  "=1\n"
                  "LOFT_STATS=text\n"
                  "decay_ms=4\n"
                  "stats=text") +
      '\0' + "\n");
  EXPECT_EQ(set(),
            "loft: FILE:1: a line is NAME=VALUE, or begins with #\n"
            "loft: FILE:2: 'colour' is no option of loft; see docs/options.md\n"
            "loft: FILE:3: stats='loud' is ignored: accepted is off|text|json|prometheus\n"
            "loft: FILE:4: '' is no option of loft; see docs/options.md\n"
            "loft: FILE:5: 'LOFT_STATS' is no option of loft; see docs/options.md\n"
            "loft: FILE:7: stats='text" +
                std::string(1, '\0') + "' is ignored: accepted is off|text|json|prometheus\n");
  EXPECT_EQ(get(options.decay_ms), 4u);
  EXPECT_EQ(get(options.stats), 0u);
}

TEST_F(SettingsTest, ALongLineIsToldAndTheNextOneCounts) {
  put("profile_file=/" + std::string(5000, 'x') + "\nstats=text\n");
  EXPECT_EQ(set(), "loft: FILE:1: the line is too long\n");
  EXPECT_EQ(get(options.stats), 1u);
}

TEST_F(SettingsTest, AFileOfSomethingElseIsNotToldInFull) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "nonsense\n";
  put(text);
  const std::string said = set();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 9);
  EXPECT_TRUE(said.ends_with("loft: FILE: 92 more lines are not accepted\n")) << said;
}

TEST_F(SettingsTest, TheStricterReadingOfNonsense) {
  options.misuse.store(1);
  put("misuse=nonsense\n");
  EXPECT_EQ(set(),
            "loft: FILE:1: misuse='nonsense' is read as stop, which is stricter: accepted is "
            "stop|continue\n");
  EXPECT_EQ(get(options.misuse), 0u);
}

TEST_F(SettingsTest, TheStricterOfTwoThatContradict) {
  const std::string told =
      "loft: FILE:2: misuse contradicts line 1, which is stricter, and counts\n";
  put("misuse=stop\nmisuse=continue\n");
  EXPECT_EQ(set(), told);
  EXPECT_EQ(get(options.misuse), 0u);
  reset();
  put("misuse=continue\nmisuse=stop\n");
  EXPECT_EQ(set(), "loft: FILE:2: misuse contradicts line 1; this line counts\n");
  EXPECT_EQ(get(options.misuse), 0u);
}

TEST_F(SettingsTest, TheLaterOfOthersThatContradict) {
  put("stats=text\nstats=text\nstats=json\nprofile_file=/a\nprofile_file=/a\nprofile_file=/b\n");
  EXPECT_EQ(set(),
            "loft: FILE:3: stats contradicts line 2; this line counts\n"
            "loft: FILE:6: profile_file contradicts line 5; this line counts\n");
  EXPECT_EQ(get(options.stats), 2u);
  EXPECT_STREQ(path_of(options.profile_file), "/b");
}

TEST_F(SettingsTest, ComesBeforeTheSymbolAndTheEnvironment) {
  put("stats=text\ncache_bytes=1M\ndecay_ms=1\n");
  EXPECT_EQ(set(), "");
  const char* const symbol = std::exchange(loft_options, "stats=json,cache_bytes=2M");
  setenv("LOFT_STATS", "prometheus", 1);
  load_options();
  unsetenv("LOFT_STATS");
  loft_options = symbol;
  EXPECT_EQ(get(options.decay_ms), 1u);
  EXPECT_EQ(get(options.cache_bytes), 2u << 20);
  EXPECT_EQ(get(options.stats), 3u);
}

}  // namespace
}  // namespace loft
