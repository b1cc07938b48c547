// What is read of control groups, from made-up trees of /proc and of their file system.
#include <errno.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "os/limits.h"
#include "os/os.h"
#include "unit/support.h"

namespace loft {
namespace {

using test::kMiB;

namespace fs = std::filesystem;

class GroupTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "groupXXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }

  void put(const std::string& name, const std::string& text) {
    const fs::path path = root_ + name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  limits::Group read(const limits::Group& last = limits::Group()) {
    return limits::read_group(limits::Read::kAll, last, root_.c_str());
  }
  limits::Group read_max() {
    return limits::read_group(limits::Read::kMax, limits::Group(), root_.c_str());
  }

  std::string root_;
};

constexpr bool same(const limits::Group& a, const limits::Group& b) {
  return a.high == b.high && a.max == b.max && a.limit == b.limit;
}

TEST_F(GroupTest, NothingThereIsNoLimit) {
  EXPECT_TRUE(same(read(), limits::Group()));
  put("/proc/self/cgroup", "");
  EXPECT_TRUE(same(read(), limits::Group()));
  put("/proc/self/cgroup", "0::/box\n");
  EXPECT_TRUE(same(read(), limits::Group()));
  put("/sys/fs/cgroup/box/memory.max", "max\n");
  put("/sys/fs/cgroup/box/memory.high", "max\n");
  put("/sys/fs/cgroup/box/memory.current", "1000000\n");
  EXPECT_TRUE(same(read(), limits::Group()));
  EXPECT_EQ(read().used, 0u);
}

TEST_F(GroupTest, TheTightestLimitOnTheWayUpCounts) {
  put("/proc/self/cgroup", "0::/outer/middle/inner\n");
  put("/sys/fs/cgroup/outer/memory.max", "104857600\n");
  put("/sys/fs/cgroup/outer/memory.high", "max\n");
  put("/sys/fs/cgroup/outer/memory.current", "52428800\n");
  put("/sys/fs/cgroup/outer/middle/memory.max", "209715200\n");
  put("/sys/fs/cgroup/outer/middle/memory.high", "94371840\n");
  put("/sys/fs/cgroup/outer/middle/memory.current", "10485760\n");
  put("/sys/fs/cgroup/outer/middle/inner/memory.max", "max\n");
  put("/sys/fs/cgroup/outer/middle/inner/memory.current", "5242880\n");
  const limits::Group group = read();
  EXPECT_EQ(group.max, 100 * kMiB);
  EXPECT_EQ(group.high, 90 * kMiB);
  // Half of the outer one's is used, a ninth of the middle one's.
  EXPECT_EQ(group.limit, 100 * kMiB);
  EXPECT_EQ(group.used, 50 * kMiB);
}

TEST_F(GroupTest, AtTheStartOneFileOfEachIsRead) {
  put("/proc/self/cgroup", "0::/outer/inner\n");
  put("/sys/fs/cgroup/outer/memory.max", "104857600\n");
  put("/sys/fs/cgroup/outer/inner/memory.max", "209715200\n");
  put("/sys/fs/cgroup/outer/inner/memory.high", "4096\n");
  put("/sys/fs/cgroup/outer/inner/memory.current", "4096\n");
  const limits::Group group = read_max();
  EXPECT_EQ(group.max, 100 * kMiB);
  EXPECT_EQ(group.high, os::kNoLimit);
  EXPECT_EQ(group.limit, 100 * kMiB);
  EXPECT_EQ(group.used, 0u);
}

// A container's process is in the topmost group that it sees, or below it.
TEST_F(GroupTest, TheTopmostOfVersionTwoMayBeAContainers) {
  put("/sys/fs/cgroup/memory.max", "1048576\n");
  for (const char* group : {"0::/\n", "0::/init\n"}) {
    put("/proc/self/cgroup", group);
    EXPECT_EQ(read().max, kMiB) << group;
    EXPECT_EQ(read_max().max, kMiB) << group;
  }
}

// In version 1, which every system has of the topmost, too: where a container shows its own.
TEST_F(GroupTest, TheTopmostOfVersionOneMayBeAContainers) {
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1048576\n");
  for (const char* group : {"4:memory:/\n", "4:memory:/docker/1234\n"}) {
    put("/proc/self/cgroup", group);
    EXPECT_EQ(read_max().max, kMiB) << group;
  }
  put("/sys/fs/cgroup/memory/docker/1234/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(read_max().max, os::kNoLimit) << "the whole machine's";
}

TEST_F(GroupTest, WhatTheSystemCanDropIsNotUsed) {
  put("/proc/self/cgroup", "0::/box\n");
  put("/sys/fs/cgroup/box/memory.max", "104857600\n");
  put("/sys/fs/cgroup/box/memory.current", "94371840\n");
  put("/sys/fs/cgroup/box/memory.stat",
      "anon 41943040\nfile 52428800\nkernel 1000\ninactive_anon 5\nactive_anon 41943035\n"
      "inactive_file 31457280\nactive_file 10485760\nunevictable 0\nslab_reclaimable 1048576\n"
      "slab_unreclaimable 77777\nslab 1126353\n");
  EXPECT_EQ(read().used, 49 * kMiB);
  // Not asked for where it would make no difference.
  put("/sys/fs/cgroup/box/memory.current", "52428800\n");
  EXPECT_EQ(read().used, 50 * kMiB);
  put("/sys/fs/cgroup/box/memory.current", "94371840\n");
  fs::remove(root_ + "/sys/fs/cgroup/box/memory.stat");
  EXPECT_EQ(read().used, 90 * kMiB);
}

// As systemd mounts both where version 1 has other resources than memory.
TEST_F(GroupTest, VersionTwoBesideVersionOne) {
  put("/proc/self/cgroup", "9:name=systemd:/\n1:cpu,0::/v1\n0::/box\n");
  put("/sys/fs/cgroup/unified/box/memory.high", "1048576\n");
  put("/sys/fs/cgroup/unified/v1/memory.high", "4096\n");
  put("/sys/fs/cgroup/box/memory.high", "4096\n");
  EXPECT_EQ(read().high, kMiB);
}

// The hierarchy of version 2 is there, too, and limits no memory.
TEST_F(GroupTest, VersionOneLimitsMemory) {
  put("/proc/self/cgroup", "9:name=systemd:/\n4:hugetlb,memory:/outer/box\n1:cpu:/outer\n0::/b\n");
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(read().max, os::kNoLimit);
  put("/sys/fs/cgroup/memory/outer/memory.limit_in_bytes", "104857600\n");
  put("/sys/fs/cgroup/memory/outer/memory.usage_in_bytes", "1048576\n");
  put("/sys/fs/cgroup/memory/outer/box/memory.limit_in_bytes", "67108864\n");
  put("/sys/fs/cgroup/memory/outer/box/memory.usage_in_bytes", "62914560\n");
  put("/sys/fs/cgroup/memory/outer/box/memory.stat",
      "cache 5\nactive_file 1\ninactive_file 1\ntotal_active_file 4194304\n"
      "total_inactive_file 6291456\n");
  const limits::Group group = read();
  EXPECT_EQ(group.max, 64 * kMiB);
  EXPECT_EQ(group.high, os::kNoLimit);
  EXPECT_EQ(group.limit, 64 * kMiB);
  EXPECT_EQ(group.used, 50 * kMiB);
}

TEST_F(GroupTest, OddNames) {
  put("/proc/self/cgroup", "0::/a b/user@1000.service/c:d\n");
  put("/sys/fs/cgroup/a b/user@1000.service/c:d/memory.max", "4096\n");
  EXPECT_EQ(read().max, 4096u);
  put("/proc/self/cgroup", "0::/../a b\n");
  put("/sys/fs/a b/memory.max", "1\n");
  EXPECT_EQ(read().max, os::kNoLimit) << "what lies above cannot be seen";
}

// A name of 1024 bytes is too long.
TEST_F(GroupTest, WhatIsTooLongNamesNothing) {
  put("/sys/fs/cgroup/memory.max", "4096\n");
  for (const size_t length : {1000, 1022, 1023, 3000, 20'000}) {
    put("/proc/self/cgroup", "0::/" + std::string(length, 'x') + "\n");
    EXPECT_EQ(read().max, length < 1023 ? 4096 : os::kNoLimit) << length;
  }
  put("/proc/self/cgroup", "3:cpu:/" + std::string(5000, 'x') + "\n4:memory:/box");
  put("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "8192");
  EXPECT_EQ(read().max, 8192u);
}

TEST_F(GroupTest, WhatIsNoNumberIsNoLimit) {
  put("/proc/self/cgroup", "0::/box\n");
  for (const char* text : {"", "\n", "-1\n", "1 2 3x\n", "12x\n", "99999999999999999999\n",
                           "18446744073709551616\n"}) {
    put("/sys/fs/cgroup/box/memory.max", text);
    EXPECT_EQ(read().max, text == std::string("1 2 3x\n") ? 1 : os::kNoLimit) << text;
  }
}

TEST_F(GroupTest, IsReadAnew) {
  put("/proc/self/cgroup", "0::/box\n");
  put("/sys/fs/cgroup/box/memory.max", "4096\n");
  limits::Group known = read();
  EXPECT_EQ(known.max, 4096u);
  put("/sys/fs/cgroup/box/memory.max", "8192\n");
  known = read(known);
  EXPECT_EQ(known.max, 8192u);
  put("/sys/fs/cgroup/other/memory.max", "1\n");
  put("/proc/self/cgroup", "0::/other\n");
  known = read(known);
  EXPECT_EQ(known.max, 1u);
  put("/sys/fs/cgroup/other/memory.max", "max\n");
  EXPECT_TRUE(same(read(known), limits::Group()));
}

// A process that has changed its root, or sees no /proc any more, is in its groups still.
TEST_F(GroupTest, LimitsHoldOnWhereTheyCannotBeRead) {
  put("/proc/self/cgroup", "0::/box\n");
  put("/sys/fs/cgroup/box/memory.max", "104857600\n");
  put("/sys/fs/cgroup/box/memory.high", "52428800\n");
  put("/sys/fs/cgroup/box/memory.current", "52428000\n");
  const limits::Group known = read();
  ASSERT_EQ(known.used, 52428000u);
  const auto hide = [&](const char* name, const char* what) {
    fs::rename(root_ + name, root_ + "/away");
    EXPECT_TRUE(same(read(known), known)) << what;
    EXPECT_EQ(read(known).used, 0u) << what << ": that was once";
    fs::rename(root_ + "/away", root_ + name);
    EXPECT_TRUE(same(read(known), known)) << what;
  };
  hide("/sys/fs/cgroup", "the groups");
  hide("/proc", "the system's own files");
  hide("/sys", "both");
  put("/proc/self/cgroup", "0::/../other\n");
  EXPECT_TRUE(same(read(known), known)) << "in another one, out of sight";
  put("/proc/self/cgroup", "0::/box\n");

  // A file of which the system says that it is there, and not what is in it.
  for (const char* name : {"memory.max", "memory.high"}) {
    const std::string path = root_ + "/sys/fs/cgroup/box/" + name;
    fs::rename(path, root_ + "/away");
    fs::create_directory(path);
    EXPECT_EQ(read(known).max, known.max) << name;
    EXPECT_EQ(read(known).high, known.high) << name;
    fs::remove(path);
    fs::rename(root_ + "/away", path);
  }
}

TEST_F(GroupTest, KeepsErrno) {
  errno = EDOM;
  read();
  EXPECT_EQ(errno, EDOM);
}

// Whatever this machine has: it must not fail, and says the same twice.
TEST(Group, ThisMachines) {
  const limits::Group group = limits::read_group(limits::Read::kMax);
  EXPECT_EQ(limits::read_group(limits::Read::kMax).max, group.max);
}

TEST(Processors, AreThoseThatTheProcessMayRunOn) {
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  EXPECT_EQ(os::processors(), static_cast<size_t>(CPU_COUNT(&set)));
}

}  // namespace
}  // namespace loft
