// A file by itself, and compiled by itself: tests put functions of their own in the place of these.
#include "os/calls.h"

#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/macros.h"
#include "os/symbols.h"

namespace loft::os {

namespace {

// ---- Before libc's are found, and where it is not known ----

void* direct_mmap(void* at, size_t bytes, int protection, int flags, int file, off_t offset) {
  const long wide[] = {protection, flags, file};
  return reinterpret_cast<void*>(
      syscall(SYS_mmap, at, bytes, wide[0], wide[1], wide[2], long{offset}));
}
int direct_munmap(void* at, size_t bytes) {
  return static_cast<int>(syscall(SYS_munmap, at, bytes));
}
int direct_mprotect(void* at, size_t bytes, int protection) {
  return static_cast<int>(syscall(SYS_mprotect, at, bytes, long{protection}));
}
int direct_madvise(void* at, size_t bytes, int advice) {
  return static_cast<int>(syscall(SYS_madvise, at, bytes, long{advice}));
}
void* direct_mremap(void* from, size_t bytes, size_t to_bytes, int flags, ...) {
  va_list more;
  va_start(more, flags);
  void* const to = va_arg(more, void*);
  va_end(more);
  return reinterpret_cast<void*>(syscall(SYS_mremap, from, bytes, to_bytes, long{flags}, to));
}
int direct_mincore(void* at, size_t bytes, unsigned char* pages) {
  return static_cast<int>(syscall(SYS_mincore, at, bytes, pages));
}

// A sanitizer must see what is mapped, and is in the place of libc's functions itself.
template <class Function>
constexpr Function* first(Function* libcs, Function* direct) {
  return kSanitized ? libcs : direct;
}

using Mmap = void*(void*, size_t, int, int, int, off_t);
using Munmap = int(void*, size_t);
using Mprotect = int(void*, size_t, int);
using Madvise = int(void*, size_t, int);
using Mremap = void*(void*, size_t, size_t, int, ...);
using Mincore = int(void*, size_t, unsigned char*);
using Clock = int(clockid_t, timespec*);

// Relaxed, all: either function does the same.
constinit Atomic<Mmap*> libcs_mmap{first<Mmap>(mmap, direct_mmap)};
constinit Atomic<Munmap*> libcs_munmap{first<Munmap>(munmap, direct_munmap)};
constinit Atomic<Mprotect*> libcs_mprotect{first<Mprotect>(mprotect, direct_mprotect)};
constinit Atomic<Madvise*> libcs_madvise{first<Madvise>(madvise, direct_madvise)};
constinit Atomic<Mremap*> libcs_mremap{first<Mremap>(mremap, direct_mremap)};
constinit Atomic<Mincore*> libcs_mincore{first<Mincore>(mincore, direct_mincore)};
// By its name: the time costs no system call.
constinit Atomic<Clock*> libcs_clock_gettime{clock_gettime};

template <class Function>
void take(Atomic<Function*>& function, const Wanted& wanted) {
  if (wanted.found == 0) return;
  function.store(reinterpret_cast<Function*>(wanted.found), memory_order_relaxed);
}

[[gnu::constructor(101)]] void find_libcs() {
  if (kSanitized) return;
  Wanted all[] = {{"mmap", 0},   {"munmap", 0},  {"mprotect", 0},     {"madvise", 0},
                  {"mremap", 0}, {"mincore", 0}, {"clock_gettime", 0}};
  find_in_libc(all, sizeof(all) / sizeof(all[0]));
  take(libcs_mmap, all[0]);
  take(libcs_munmap, all[1]);
  take(libcs_mprotect, all[2]);
  take(libcs_madvise, all[3]);
  take(libcs_mremap, all[4]);
  take(libcs_mincore, all[5]);
  take(libcs_clock_gettime, all[6]);
}

}  // namespace

void* call_mmap(void* at, size_t bytes, int protection, int flags) {
  return libcs_mmap.load(memory_order_relaxed)(at, bytes, protection,
                                               flags | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
int call_munmap(void* at, size_t bytes) {
  return libcs_munmap.load(memory_order_relaxed)(at, bytes);
}
int call_mprotect(void* at, size_t bytes, int protection) {
  return libcs_mprotect.load(memory_order_relaxed)(at, bytes, protection);
}
int call_madvise(void* at, size_t bytes, int advice) {
  return libcs_madvise.load(memory_order_relaxed)(at, bytes, advice);
}
void* call_mremap(void* from, size_t bytes, size_t to_bytes, int flags, void* to) {
  return libcs_mremap.load(memory_order_relaxed)(from, bytes, to_bytes, flags, to);
}
int call_mincore(void* at, size_t bytes, unsigned char* pages) {
  return libcs_mincore.load(memory_order_relaxed)(at, bytes, pages);
}
// By the system's calls: nobody has to know of them.
int call_ioctl(int file, unsigned long request, void* argument) {
  return static_cast<int>(syscall(SYS_ioctl, long{file}, request, argument));
}
int call_clock_gettime(clockid_t clock, timespec* time) {
  return libcs_clock_gettime.load(memory_order_relaxed)(clock, time);
}

}  // namespace loft::os
