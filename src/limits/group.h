// The limits that the system puts on the process's group, and on the groups around it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/os.h"

namespace loft::limits {

using os::kNoLimit;

// Limits of a control group, of either version. They combine the group of this process and the
// groups that contain it, whose limits bind it, too.
struct Group {
  size_t high = kNoLimit;  // bytes above which the system reclaims the group's memory and slows it
  size_t max = kNoLimit;   // bytes that the group cannot exceed: the system stops it instead
  // The byte limit that is nearest to being met, and the bytes that count against it. Once more
  // than half of the limit is used, memory that the system can drop without loss, such as cached
  // files, does not count.
  size_t limit = kNoLimit;
  size_t used = 0;
  size_t processors = kNoLimit;  // that the group's share of processor time keeps busy, rounded up
};

// Reads the limits of the group. It opens files, so no thread may use it that shares a table of
// file descriptors with a running program. `root` is a prefix of every path, for tests.
class GroupReader {
 public:
  explicit GroupReader(const char* root = "") : root_(root) {}

  // `last` is an earlier result, maybe of another reader. Its limits stay in force if the present
  // ones may exist but cannot be read. `used` is then unknown, and 0.
  Group read(const Group& last = Group());

 private:
  static constexpr size_t kLongestPath = 1024;

  // The mount point for the groups of one version, with the root as a prefix, and the group that
  // the mount point itself shows.
  struct Mount {
    bool found = false;
    char path[kLongestPath];
    char group[kLongestPath];
  };

  void find_mounts();
  bool look(Group& group);
  bool look_along(unsigned version, const char* usual_place, const char* path, Group& group);

  const char* root_;
  Mount mounts_[2];  // version 1, of the memory hierarchy only; version 2
};

}  // namespace loft::limits
