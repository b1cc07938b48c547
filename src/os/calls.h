// Calls that loft makes under its locks. They go to the C library's own functions, past whatever
// the program or another library has in their place: a tracer of mmap may allocate, or hold a lock
// of its own around malloc. Not to the system itself, because somebody may have to know of them who
// changes the code of these functions, as libraries for RDMA do, which must see each munmap. All
// return what the functions do, and set errno.
#pragma once

#include <sys/types.h>
#include <time.h>

#include <cstddef>

namespace loft::os {

void* call_mmap(void* at, size_t bytes, int protection, int flags);  // private and anonymous
int call_munmap(void* at, size_t bytes);
int call_mprotect(void* at, size_t bytes, int protection);
int call_madvise(void* at, size_t bytes, int advice);
void* call_mremap(void* from, size_t bytes, size_t to_bytes, int flags, void* to);
int call_mincore(void* at, size_t bytes, unsigned char* pages);
int call_ioctl(int file, unsigned long request, void* argument);
int call_clock_gettime(clockid_t clock, struct timespec* time);

}  // namespace loft::os
