// Limits of a group of processes on Windows: those of the job that the process is in, as of a
// container.
#include <windows.h>

#include "limits/group.h"
#include "os/windows_error.h"

namespace loft::limits {

// What the job uses now the system does not say. `root` is for systems whose groups are files.
Group GroupReader::read(const Group&) {
  const os::KeepLastError keep;
  Group group;
  JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = {};
  if (root_[0] != 0 || !QueryInformationJobObject(nullptr, JobObjectExtendedLimitInformation,
                                                  &limits, sizeof(limits), nullptr)) {
    return group;
  }
  const DWORD flags = limits.BasicLimitInformation.LimitFlags;
  if ((flags & JOB_OBJECT_LIMIT_JOB_MEMORY) != 0) group.max = limits.JobMemoryLimit;
  if ((flags & JOB_OBJECT_LIMIT_PROCESS_MEMORY) != 0 && limits.ProcessMemoryLimit < group.max) {
    group.max = limits.ProcessMemoryLimit;
  }
  return group;
}

}  // namespace loft::limits
