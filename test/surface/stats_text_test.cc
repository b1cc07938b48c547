// Statistics as text: how much of it there is, and where it goes. What is in it, Python reads:
// test/tools/test_statistics.py.
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "loft/loft.h"

namespace {

// Static, so that nothing is allocated between two readings, and both say the same.
char first[1 << 17];
char second[1 << 17];

class StatsText : public testing::TestWithParam<loft_stats_format_t> {};

TEST_P(StatsText, PrintTellsHowMuchItTakes) {
  const size_t whole = loft_stats_print(nullptr, 0, GetParam());
  ASSERT_GT(whole, 500u);
  ASSERT_LT(whole, sizeof(first));
  EXPECT_EQ(loft_stats_print(first, sizeof(first), GetParam()), whole);
  EXPECT_EQ(strlen(first), whole);
  EXPECT_EQ(first[whole - 1], '\n');
  for (const size_t size : {size_t{1}, size_t{2}, size_t{100}, whole - 1, whole, whole + 1}) {
    memset(second, 'x', sizeof(second));
    EXPECT_EQ(loft_stats_print(second, size, GetParam()), whole);
    const size_t written = std::min(size - 1, whole);
    EXPECT_EQ(strlen(second), written);
    EXPECT_EQ(memcmp(first, second, written), 0);
    EXPECT_EQ(second[size], 'x') << "behind its end";
  }
}

TEST_P(StatsText, WriteWritesWhatPrintPrints) {
  char name[] = "/tmp/loft-stats-XXXXXX";
  const int file = mkstemp(name);
  ASSERT_GE(file, 0);
  unlink(name);
  EXPECT_EQ(loft_stats_write(file, GetParam()), 0);
  const size_t whole = loft_stats_print(first, sizeof(first), GetParam());
  EXPECT_EQ(pread(file, second, sizeof(second), 0), static_cast<ssize_t>(whole));
  EXPECT_EQ(memcmp(first, second, whole), 0);
  close(file);
}

TEST_P(StatsText, WriteTellsOfErrors) {
  EXPECT_EQ(loft_stats_write(-1, GetParam()), EBADF);
  const int file = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(file, 0);
  errno = 0;
  EXPECT_EQ(loft_stats_write(file, GetParam()), ENOSPC);
  EXPECT_EQ(errno, 0);
  close(file);
}

TEST_P(StatsText, SaysNoAddress) {
  loft_stats_t stats = {};
  stats.struct_size = sizeof(stats);
  ASSERT_EQ(loft_stats(&stats), 0);
  loft_stats_print(first, sizeof(first), GetParam());
  EXPECT_NE(stats.address_begin, 0u);
  EXPECT_EQ(strstr(first, std::to_string(stats.address_begin).c_str()), nullptr);
  EXPECT_EQ(strstr(first, "address_"), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Formats, StatsText,
                         testing::Values(LOFT_STATS_TEXT, LOFT_STATS_JSON, LOFT_STATS_PROMETHEUS),
                         [](const auto& of) {
                           return std::string(of.param == LOFT_STATS_TEXT   ? "text"
                                              : of.param == LOFT_STATS_JSON ? "json"
                                                                            : "prometheus");
                         });

TEST(StatsText, RefusesOtherFormats) {
  const auto none = static_cast<loft_stats_format_t>(3);
  EXPECT_EQ(loft_stats_print(first, sizeof(first), none), 0u);
  EXPECT_EQ(loft_stats_write(1, none), EINVAL);
}

TEST(StatsClasses, StructsOfOtherVersions) {
  loft_class_stats_t classes[64] = {};
  const size_t count = loft_stats_classes(classes, 64, sizeof(classes[0]));
  ASSERT_GT(count, 30u);
  ASSERT_LT(count, 64u);
  for (size_t i = 1; i + 1 < count; ++i) {
    EXPECT_GT(classes[i].object_bytes, classes[i - 1].object_bytes);
  }
  EXPECT_EQ(classes[count - 1].object_bytes, 0u) << "large objects";
  EXPECT_EQ(loft_stats_classes(nullptr, 0, sizeof(classes[0])), count);

  // Fewer than there are, of an older program, and of a newer one.
  struct Older {
    uint64_t object_bytes;
    uint64_t live_objects;
  } older[3] = {};
  older[2].object_bytes = 4711;
  EXPECT_EQ(loft_stats_classes(reinterpret_cast<loft_class_stats_t*>(older), 2, sizeof(Older)),
            count);
  EXPECT_EQ(older[0].object_bytes, classes[0].object_bytes);
  EXPECT_EQ(older[1].object_bytes, classes[1].object_bytes);
  EXPECT_EQ(older[2].object_bytes, 4711u);
  struct Newer {
    loft_class_stats_t known;
    uint64_t unknown;
  } newer[2];
  memset(newer, 0xff, sizeof(newer));
  EXPECT_EQ(loft_stats_classes(&newer[0].known, 2, sizeof(Newer)), count);
  EXPECT_EQ(newer[1].known.object_bytes, classes[1].object_bytes);
  EXPECT_EQ(newer[1].unknown, 0u);
}

}  // namespace
