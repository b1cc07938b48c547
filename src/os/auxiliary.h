// What the kernel tells a program at its start.
#pragma once

#include <sys/auxv.h>

#include <cstdint>

#include "base/keep_errno.h"

namespace loft::os {

// The value of an AT_ name; 0 if the kernel tells none. The C library then sets errno, which malloc
// must not.
inline uintptr_t auxiliary(unsigned long name) {
  const KeepErrno keep;
  return getauxval(name);
}

}  // namespace loft::os
