// A library to preload before loft, as tracers are: it stands in the place of libc's functions, and
// keeps a record of each call, which it allocates under a lock of its own.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct Record {
  struct Record* next;
  const char* call;
  char more[200];
};
static struct Record* all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int inside;

static void note(const char* call) {
  static int records;
  if (inside) return;
  inside = 1;
  pthread_mutex_lock(&lock);
  struct Record* const record = malloc(sizeof(*record));
  *record = (struct Record){all, call, {0}};
  all = record;
  if (++records % 50 == 0) {
    for (struct Record* next; all != NULL; all = next) {
      next = all->next;
      free(all);
    }
  }
  pthread_mutex_unlock(&lock);
  inside = 0;
}

void* mmap(void* at, size_t bytes, int protection, int flags, int file, off_t offset) {
  note("mmap");
  return (void*)syscall(SYS_mmap, at, bytes, (long)protection, (long)flags, (long)file, offset);
}

int munmap(void* at, size_t bytes) {
  note("munmap");
  return (int)syscall(SYS_munmap, at, bytes);
}

int mprotect(void* at, size_t bytes, int protection) {
  note("mprotect");
  return (int)syscall(SYS_mprotect, at, bytes, (long)protection);
}

int madvise(void* at, size_t bytes, int advice) {
  note("madvise");
  return (int)syscall(SYS_madvise, at, bytes, (long)advice);
}

void* mremap(void* from, size_t bytes, size_t to_bytes, int flags, ...) {
  va_list more;
  va_start(more, flags);
  void* const to = va_arg(more, void*);
  va_end(more);
  note("mremap");
  return (void*)syscall(SYS_mremap, from, bytes, to_bytes, (long)flags, to);
}

int mincore(void* at, size_t bytes, unsigned char* pages) {
  note("mincore");
  return (int)syscall(SYS_mincore, at, bytes, pages);
}

int ioctl(int file, unsigned long request, ...) {
  va_list more;
  va_start(more, request);
  void* const argument = va_arg(more, void*);
  va_end(more);
  note("ioctl");
  return (int)syscall(SYS_ioctl, (long)file, request, argument);
}

int clock_gettime(clockid_t clock, struct timespec* now) {  // time: the clock in its place
  note("clock_gettime");                                    // time: the clock in its place
  return (int)syscall(SYS_clock_gettime, (long)clock, now);
}

int open(const char* path, int flags, ...) {
  note("open");
  return (int)syscall(SYS_openat, (long)AT_FDCWD, path, (long)flags, 0600L);
}

ssize_t read(int file, void* to, size_t bytes) {
  note("read");
  return syscall(SYS_read, (long)file, to, bytes);
}

ssize_t pread(int file, void* to, size_t bytes, off_t at) {
  note("pread");
  return syscall(SYS_pread64, (long)file, to, bytes, at);
}

ssize_t write(int file, const void* from, size_t bytes) {
  note("write");
  return syscall(SYS_write, (long)file, from, bytes);
}

int close(int file) {
  note("close");
  return (int)syscall(SYS_close, (long)file);
}

ssize_t process_vm_readv(pid_t process, const struct iovec* to, unsigned long count,
                         const struct iovec* from, unsigned long from_count, unsigned long flags) {
  note("process_vm_readv");
  return syscall(SYS_process_vm_readv, (long)process, to, count, from, from_count, flags);
}

int pthread_key_create(pthread_key_t* key, void (*destroy)(void*)) {
  static _Atomic pthread_key_t next = 900;
  (void)destroy;
  note("pthread_key_create");
  *key = next++;
  return next > 1000;
}
