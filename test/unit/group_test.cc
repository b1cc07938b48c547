// What is read of control groups, from made-up trees of /proc and of their file system.
#include <errno.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "limits/group.h"
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
    put("/proc/self/mountinfo",
        "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw\n"
        "31 22 0:28 / /sys/fs/cgroup rw,nosuid shared:4 master:2 - cgroup2 cgroup2 "
        "rw,nsdelegate\n");
  }
  void TearDown() override { fs::remove_all(root_); }

  void put(const std::string& name, const std::string& text) {
    const fs::path path = root_ + name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  limits::Group read() { return limits::GroupReader(root_.c_str()).read(); }

  std::string root_;
};

TEST_F(GroupTest, NothingThereIsNoLimit) {
  const auto no_limit = [](const limits::Group& group) {
    return group.high == os::kNoLimit && group.max == os::kNoLimit && group.limit == os::kNoLimit &&
           group.used == 0 && group.processors == os::kNoLimit;
  };
  EXPECT_TRUE(no_limit(read()));
  put("/proc/self/cgroup", "0::/box\n");
  EXPECT_TRUE(no_limit(read()));
  put("/sys/fs/cgroup/box/memory.max", "max\n");
  put("/sys/fs/cgroup/box/memory.high", "max\n");
  put("/sys/fs/cgroup/box/memory.current", "1000000\n");
  put("/sys/fs/cgroup/box/cpu.max", "max 100000\n");
  EXPECT_TRUE(no_limit(read()));
  fs::remove(root_ + "/proc/self/mountinfo");
  EXPECT_TRUE(no_limit(read()));
}

TEST_F(GroupTest, TheTightestLimitOnTheWayUpCounts) {
  put("/proc/self/cgroup", "0::/outer/middle/inner\n");
  put("/sys/fs/cgroup/outer/memory.max", "104857600\n");
  put("/sys/fs/cgroup/outer/memory.high", "max\n");
  put("/sys/fs/cgroup/outer/memory.current", "52428800\n");
  put("/sys/fs/cgroup/outer/cpu.max", "150000 100000\n");
  put("/sys/fs/cgroup/outer/middle/memory.max", "209715200\n");
  put("/sys/fs/cgroup/outer/middle/memory.high", "94371840\n");
  put("/sys/fs/cgroup/outer/middle/memory.current", "10485760\n");
  put("/sys/fs/cgroup/outer/middle/cpu.max", "400000 100000\n");
  put("/sys/fs/cgroup/outer/middle/inner/memory.max", "max\n");
  put("/sys/fs/cgroup/outer/middle/inner/memory.current", "5242880\n");
  const limits::Group group = read();
  EXPECT_EQ(group.max, 100 * kMiB);
  EXPECT_EQ(group.high, 90 * kMiB);
  // Half of the outer one's is used, a ninth of the middle one's.
  EXPECT_EQ(group.limit, 100 * kMiB);
  EXPECT_EQ(group.used, 50 * kMiB);
  EXPECT_EQ(group.processors, 2u);
}

TEST_F(GroupTest, TheRootOfANamespaceHasItsLimitsAtTheMount) {
  put("/proc/self/cgroup", "0::/\n");
  put("/sys/fs/cgroup/memory.max", "1048576\n");
  put("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(read().max, kMiB);
  EXPECT_EQ(read().processors, 1u);
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

TEST_F(GroupTest, BesideVersionOne) {
  put("/proc/self/mountinfo",
      "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
      "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n");
  put("/proc/self/cgroup", "9:name=systemd:/\n4:memory:/v1\n1:cpu,0::/v1\n0::/box\n");
  put("/sys/fs/cgroup/unified/box/memory.high", "1048576\n");
  put("/sys/fs/cgroup/unified/v1/memory.high", "4096\n");
  EXPECT_EQ(read().high, kMiB);
}

TEST_F(GroupTest, VersionOneLimitsMemory) {
  put("/proc/self/mountinfo",
      "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
      "33 31 0:30 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n");
  put("/proc/self/cgroup", "9:name=systemd:/\n4:hugetlb,memory:/outer/box\n1:cpu:/outer\n");
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

// Whether mountinfo can be read or not.
TEST_F(GroupTest, TheUsualPlacesAreLookedAtFirst) {
  fs::remove(root_ + "/proc/self/mountinfo");
  put("/proc/self/cgroup", "0::/outer/box\n");
  put("/sys/fs/cgroup/outer/box/memory.max", "4096\n");
  EXPECT_EQ(read().max, os::kNoLimit) << "no sign that these are groups";
  put("/sys/fs/cgroup/outer/box/cgroup.controllers", "memory\n");
  EXPECT_EQ(read().max, 4096u);
  put("/sys/fs/cgroup/outer/memory.max", "2048\n");
  EXPECT_EQ(read().max, 2048u);
  put("/proc/self/cgroup", "0::/../cgroup/outer/box\n");
  EXPECT_EQ(read().max, os::kNoLimit);
  put("/proc/self/cgroup", "4:memory:/a\n0::/\n");
  EXPECT_EQ(read().max, os::kNoLimit);
  put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "8192\n");
  EXPECT_EQ(read().max, 8192u);
  put("/sys/fs/cgroup/unified/cgroup.controllers", "");
  put("/sys/fs/cgroup/unified/memory.max", "1024\n");
  EXPECT_EQ(read().max, 1024u);
}

// As systemd mounts them in its hybrid mode: the unified hierarchy is there and limits nothing.
TEST_F(GroupTest, BothVersionsCount) {
  put("/proc/self/mountinfo",
      "33 31 0:30 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
      "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n");
  put("/proc/self/cgroup", "4:memory:/a\n0::/b\n");
  put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "67108864\n");
  put("/sys/fs/cgroup/unified/b/cpu.max", "100000 100000\n");
  EXPECT_EQ(read().max, 64 * kMiB);
  EXPECT_EQ(read().processors, 1u);
  put("/sys/fs/cgroup/unified/b/memory.max", "33554432\n");
  EXPECT_EQ(read().max, 32 * kMiB);
}

TEST_F(GroupTest, PartOfTheTreeIsMounted) {
  put("/proc/self/mountinfo", "41 31 0:38 /pods/box /cgroups rw,relatime - cgroup2 cgroup2 rw\n");
  put("/cgroups/memory.max", "1048576\n");
  put("/cgroups/inner/memory.max", "524288\n");
  put("/proc/self/cgroup", "0::/pods/box\n");
  EXPECT_EQ(read().max, kMiB);
  put("/proc/self/cgroup", "0::/pods/box/inner\n");
  EXPECT_EQ(read().max, kMiB / 2);
  // Another one that begins with the same letters, and what lies above.
  for (const char* other : {"0::/pods/boxes\n", "0::/pods\n", "0::/\n", "0::/../x\n"}) {
    put("/proc/self/cgroup", other);
    EXPECT_EQ(read().max, os::kNoLimit) << other;
  }
}

TEST_F(GroupTest, MountsOutsideOfTheNamespaceAreNotOurs) {
  put("/proc/self/mountinfo",
      "40 31 0:38 /../.. /host rw - cgroup2 cgroup2 rw\n"
      "41 31 0:38 / /mine rw - cgroup2 cgroup2 rw\n");
  put("/proc/self/cgroup", "0::/box\n");
  put("/host/box/memory.max", "1\n");
  put("/mine/box/memory.max", "2\n");
  EXPECT_EQ(read().max, 2u);
}

TEST_F(GroupTest, OddNames) {
  put("/proc/self/mountinfo",
      "41 31 0:38 / /with\\040space\\134slash rw a:1 b:2 c:3 - cgroup2 none rw\n");
  put("/proc/self/cgroup", "0::/a b/user@1000.service/c:d\n");
  put("/with space\\slash/a b/user@1000.service/c:d/memory.max", "4096\n");
  EXPECT_EQ(read().max, 4096u);
}

TEST_F(GroupTest, LongLinesOfOthersAreSkipped) {
  const std::string layers(5000, 'x');
  put("/proc/self/mountinfo", "30 1 0:25 / / rw - overlay overlay rw,lowerdir=" + layers +
                                  "\n"
                                  "29 1 0:25 /" +
                                  layers + " /" + layers + " rw - tmpfs " + layers +
                                  " rw\n"
                                  "31 30 0:28 / /sys/fs/cgroup ro - cgroup2 cgroup rw");
  put("/proc/self/cgroup", "3:cpu:/" + layers + "\n0::/box");
  put("/sys/fs/cgroup/box/memory.max", "4096");
  EXPECT_EQ(read().max, 4096u);
}

// A line of 1024 bytes is too long; the limit further up is found by all others.
TEST_F(GroupTest, WhatIsTooLongNamesNothing) {
  put("/sys/fs/cgroup/memory.max", "4096\n");
  for (const size_t length : {1000, 1021, 1022, 1023, 3000}) {
    put("/proc/self/cgroup", "0::/" + std::string(length, 'x') + "\n");
    EXPECT_EQ(read().max, length < 1023 ? 4096 : os::kNoLimit) << length;
  }
}

TEST_F(GroupTest, WhatIsNoNumberIsNoLimit) {
  put("/proc/self/cgroup", "0::/box\n");
  for (const char* text : {"", "\n", "-1\n", "1 2 3x\n", "12x\n", "99999999999999999999\n",
                           "00000000000000000000000000000000000000000000001\n"}) {
    put("/sys/fs/cgroup/box/memory.max", text);
    put("/sys/fs/cgroup/box/cpu.max", text);
    const size_t expected = text == std::string("1 2 3x\n") ? 1 : os::kNoLimit;
    EXPECT_EQ(read().max, expected) << text;
    EXPECT_EQ(read().processors, expected) << text;
  }
  put("/sys/fs/cgroup/box/cpu.max", "100000 0\n");
  EXPECT_EQ(read().processors, os::kNoLimit);
}

TEST_F(GroupTest, IsReadAnew) {
  limits::GroupReader reader(root_.c_str());
  put("/proc/self/cgroup", "0::/box\n");
  put("/sys/fs/cgroup/box/memory.max", "4096\n");
  EXPECT_EQ(reader.read().max, 4096u);
  put("/sys/fs/cgroup/box/memory.max", "8192\n");
  EXPECT_EQ(reader.read().max, 8192u);
  put("/sys/fs/cgroup/other/memory.max", "1\n");
  put("/proc/self/cgroup", "0::/other\n");
  EXPECT_EQ(reader.read().max, 1u);
  put("/sys/fs/cgroup/box/memory.max", "max\n");
  put("/proc/self/cgroup", "0::/box\n");
  EXPECT_EQ(reader.read().max, os::kNoLimit);
}

constexpr bool same(const limits::Group& a, const limits::Group& b) {
  return a.high == b.high && a.max == b.max && a.limit == b.limit && a.processors == b.processors;
}

// A process that has changed its root, or sees no /proc any more, is in its groups still.
TEST_F(GroupTest, LimitsHoldOnWhereTheyCannotBeRead) {
  put("/proc/self/cgroup", "0::/box\n");
  put("/sys/fs/cgroup/box/memory.max", "104857600\n");
  put("/sys/fs/cgroup/box/memory.high", "52428800\n");
  put("/sys/fs/cgroup/box/memory.current", "52428000\n");
  put("/sys/fs/cgroup/box/cpu.max", "50000 100000\n");
  limits::GroupReader reader(root_.c_str());
  const limits::Group known = reader.read();
  ASSERT_EQ(known.used, 52428000u);
  const auto hide = [&](const char* name, const char* what) {
    fs::rename(root_ + name, root_ + "/away");
    for (const limits::Group& now :
         {reader.read(known), limits::GroupReader(root_.c_str()).read(known)}) {
      EXPECT_TRUE(same(now, known)) << what;
      EXPECT_EQ(now.used, 0u) << what << ": that was once";
    }
    fs::rename(root_ + "/away", root_ + name);
    EXPECT_TRUE(same(reader.read(known), known)) << what;
  };
  hide("/sys/fs/cgroup", "the groups");
  hide("/proc", "the system's own files");
  hide("/sys", "both");

  // A file of which the system says that it is there, and not what is in it.
  for (const char* name : {"memory.max", "memory.high", "cpu.max"}) {
    const std::string path = root_ + "/sys/fs/cgroup/box/" + name;
    fs::rename(path, root_ + "/away");
    fs::create_directory(path);
    EXPECT_EQ(reader.read(known).max, known.max) << name;
    EXPECT_EQ(reader.read(known).high, known.high) << name;
    EXPECT_EQ(reader.read(known).processors, known.processors) << name;
    fs::remove(path);
    fs::rename(root_ + "/away", path);
  }
}

TEST_F(GroupTest, LimitsThatAreTakenAwayAreGone) {
  limits::Group known;
  known.high = known.max = known.limit = 4096;
  known.processors = 1;
  const auto gone = [&] {
    return same(limits::GroupReader(root_.c_str()).read(known), limits::Group());
  };
  put("/proc/self/cgroup", "0::/box\n");
  put("/sys/fs/cgroup/box/memory.current", "1\n");
  EXPECT_TRUE(gone()) << "no file for one";
  put("/sys/fs/cgroup/box/memory.max", "max\n");
  put("/sys/fs/cgroup/box/cpu.max", "max 100000\n");
  EXPECT_TRUE(gone());
  put("/proc/self/cgroup", "4:memory:/v1\n");
  EXPECT_TRUE(gone()) << "in no group of this version";
  put("/proc/self/cgroup", "0::/../other\n");
  EXPECT_TRUE(gone()) << "in another one, out of sight";
}

TEST_F(GroupTest, KeepsErrno) {
  errno = EDOM;
  read();
  EXPECT_EQ(errno, EDOM);
}

// Whatever this machine has: it must not fail, and says the same twice.
TEST(Group, ThisMachines) {
  limits::GroupReader reader;
  const limits::Group group = reader.read();
  EXPECT_GE(group.processors, 1u);
  EXPECT_EQ(reader.read().max, group.max);
}

TEST(Processors, AreThoseThatTheProcessMayRunOn) {
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  EXPECT_EQ(os::processors(), static_cast<size_t>(CPU_COUNT(&set)));
}

}  // namespace
}  // namespace loft
