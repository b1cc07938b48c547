// Which pages are resident: by runs where the system tells them, and page by page.
#include "os/residency.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/bits.h"
#include "os/os.h"

namespace loft {
namespace {

class ResidencyTest : public testing::Test {
 protected:
  void SetUp() override {
    page_ = os::page_size();
    mapped_ = mmap(nullptr, kPages * page_ + kLeastMapped, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(mapped_, MAP_FAILED);
    base_ = reinterpret_cast<char*>(round_up(reinterpret_cast<uintptr_t>(mapped_), kLeastMapped));
    madvise(base_, kPages * page_, MADV_NOHUGEPAGE);
    std::mt19937 random(7);
    written_.resize(kPages);
    // Single pages, more runs than fit into one answer, and long ones that cross its pieces.
    for (size_t i = 0; i < 1000; ++i) write(random() % 5000);
    for (size_t i = 12'000; i < 21'000; ++i) write(i);
    write(kPages - 1);
  }
  void TearDown() override { munmap(mapped_, kPages * page_ + kLeastMapped); }

  void write(size_t page) {
    base_[page * page_] = 1;
    written_[page] = true;
  }
  uintptr_t at(size_t page) const { return reinterpret_cast<uintptr_t>(base_) + page * page_; }

  // In steps of all lengths.
  void expect_what_was_written() const {
    std::mt19937 random(8);
    os::Residency residency;
    for (unsigned round = 0; round < 4; ++round) {
      size_t page = round * 3000;
      residency.begin(at(page), at(kPages));
      while (page < kPages) {
        const size_t end = std::min(kPages, page + 1 + random() % (round == 0 ? 20 : 10'000));
        const os::Residency::Bytes bytes = residency.until(at(end));
        const auto from = written_.begin() + static_cast<ptrdiff_t>(page);
        const auto to = written_.begin() + static_cast<ptrdiff_t>(end);
        ASSERT_EQ(bytes.resident, static_cast<size_t>(std::count(from, to, true)) * page_)
            << page << " to " << end;
        EXPECT_EQ(bytes.huge, 0u);
        page = end;
      }
    }
  }

  void cut(size_t page) {
    const size_t pages = kLeastMapped / page_;
    EXPECT_EQ(munmap(base_ + page * page_, kLeastMapped), 0);
    std::fill_n(written_.begin() + static_cast<ptrdiff_t>(page), pages, false);
  }

  // In a process that can open no file, as where the system does not tell runs. It has gaps of the
  // least length that far apart, unless that is 0.
  void expect_it_page_by_page(size_t pages_between_gaps = 0) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (size_t gap = pages_between_gaps; gap != 0 && gap < 5000; gap += pages_between_gaps) {
        cut(gap);
      }
      const rlimit none = {0, 0};
      setrlimit(RLIMIT_NOFILE, &none);
      expect_what_was_written();
      _exit(HasFailure() ? 1 : 0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }

  static constexpr size_t kPages = 40'000;
  static constexpr size_t kLeastMapped = 64 << 10;  // loft's mappings begin at multiples of it
  void* mapped_ = nullptr;
  size_t page_ = 0;
  char* base_ = nullptr;
  std::vector<bool> written_;
};

TEST_F(ResidencyTest, FindsWhatWasWritten) { expect_what_was_written(); }

TEST_F(ResidencyTest, FindsItPageByPage) { expect_it_page_by_page(); }

// The system tells nothing of a piece with a gap.
TEST_F(ResidencyTest, FindsWhatIsBesideAGapPageByPage) {
  expect_it_page_by_page(7 * kLeastMapped / page_);
}

// Between gaps so far apart, an answer has more runs than are kept: the next piece begins anywhere.
TEST_F(ResidencyTest, FindsWhatIsBesideAGapBehindManyRuns) {
  expect_it_page_by_page(75 * kLeastMapped / page_);
}

TEST_F(ResidencyTest, WhatIsGivenBackIsNotThere) {
  os::discard(base_ + 12'000 * page_, 5000 * page_);
  std::fill(written_.begin() + 12'000, written_.begin() + 17'000, false);
  expect_what_was_written();
}

TEST_F(ResidencyTest, ReservedAddressesHoldNothing) {
  void* reserved = os::reserve(1 << 30);
  ASSERT_NE(reserved, nullptr);
  os::Residency residency;
  const auto from = reinterpret_cast<uintptr_t>(reserved);
  residency.begin(from, from + (1 << 30));
  EXPECT_EQ(residency.until(from + (1 << 30)).resident, 0u);
  os::unmap(reserved, 1 << 30);
}

TEST_F(ResidencyTest, KeepsErrnoAndFiles) {
  const int before = dup(0);
  close(before);
  errno = 4711;
  {
    os::Residency residency;
    residency.begin(at(0), at(kPages));
    residency.until(at(kPages));
  }
  EXPECT_EQ(errno, 4711);
  const int after = dup(0);
  EXPECT_EQ(after, before) << "it has closed what it opened";
  close(after);
}

}  // namespace
}  // namespace loft
