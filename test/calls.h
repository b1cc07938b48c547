// The calls of os/calls.h by their names, for programs that are linked with a function of
// their own in the place of each: CALL_MMAP(__wrap_) is that, and CALL_MMAP(__real_) the library's.
#pragma once

#include <cstddef>

#define CALL_MMAP(which) which##_ZN4loft2os9call_mmapEPvmii
#define CALL_MUNMAP(which) which##_ZN4loft2os11call_munmapEPvm
#define CALL_MADVISE(which) which##_ZN4loft2os12call_madviseEPvmi
#define CALL_MREMAP(which) which##_ZN4loft2os11call_mremapEPvmmiS1_

extern "C" {
void* CALL_MMAP(__real_)(void* at, size_t bytes, int protection, int flags);
int CALL_MUNMAP(__real_)(void* at, size_t bytes);
int CALL_MADVISE(__real_)(void* at, size_t bytes, int advice);
void* CALL_MREMAP(__real_)(void* from, size_t bytes, size_t to_bytes, int flags, void* to);

void* CALL_MMAP(__wrap_)(void* at, size_t bytes, int protection, int flags);
int CALL_MUNMAP(__wrap_)(void* at, size_t bytes);
int CALL_MADVISE(__wrap_)(void* at, size_t bytes, int advice);
void* CALL_MREMAP(__wrap_)(void* from, size_t bytes, size_t to_bytes, int flags, void* to);
}
