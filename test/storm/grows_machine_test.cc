// The tests of grows_test.cc under each of the system's settings for huge pages, which it changes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "storm/support.h"

namespace storm {
namespace {

constexpr char kHugePages[] = "/sys/kernel/mm/transparent_hugepage/enabled";

bool set_huge_pages(const std::string& value) {
  std::ofstream file(kHugePages);
  file << value << std::flush;
  return file.good();
}

class HugePages : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    // Tests that run at a time would restore each other's settings.
    lock_ = open(kHugePages, O_RDONLY | O_CLOEXEC);
    ASSERT_GE(lock_, 0);
    ASSERT_EQ(flock(lock_, LOCK_EX), 0);
    std::string text;
    std::getline(std::ifstream(kHugePages), text);
    const size_t begin = text.find('[') + 1;
    before_ = text.substr(begin, text.find(']') - begin);
    ASSERT_TRUE(set_huge_pages(GetParam()));
  }
  void TearDown() override {
    EXPECT_TRUE(set_huge_pages(before_));
    close(lock_);
  }

 private:
  std::string before_;
  int lock_ = -1;
};

TEST_P(HugePages, WhatGrows) {
  const pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe", "storm_tests", "--gtest_filter=Grows.*", nullptr);
    _exit(1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

INSTANTIATE_TEST_SUITE_P(Settings, HugePages, testing::Values("always", "madvise", "never"),
                         [](const auto& setting) { return std::string(setting.param); });

}  // namespace
}  // namespace storm
