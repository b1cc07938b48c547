// The limits that the system puts on the process's control group, and on the groups around it.
#pragma once

#include <cstddef>

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
};

// What is read of each group: `max` alone, which is then the limit that is told; or all.
enum class Read { kMax, kAll };

// Reads the limits of the group. It opens files, so no thread may use it that shares a table of
// file descriptors with a running program.
//
// `last` is an earlier result. Its limits stay in force if the present ones may exist but cannot be
// read. `used` is then unknown, and 0. `root` is a prefix of every path, for tests.
Group read_group(Read what, const Group& last = Group(), const char* root = "");

}  // namespace loft::limits
