// What the kernel and libc tell a program.
#pragma once

#include <sys/auxv.h>

#include <cstdint>

#include "base/keep.h"

// What glibc says of the number of the process's threads. It does so since 2.32: the variable is
// weak, so that a library that was linked for an older one still reads it where it is.
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#pragma weak __libc_single_threaded
#endif

namespace loft::os {

// The value of an AT_ name; 0 if the kernel tells none. The C library then sets errno, which malloc
// must not.
inline uintptr_t auxiliary(unsigned long name) {
  const KeepErrno keep;
  return getauxval(name);
}

// Whether there is one thread. False if libc does not tell.
inline bool known_single_thread() {
#if __has_include(<sys/single_threaded.h>)
  return &__libc_single_threaded != nullptr && __libc_single_threaded != 0;
#else
  return false;
#endif
}

}  // namespace loft::os
