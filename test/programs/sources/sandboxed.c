// sandboxed work|first|statistics|forbidden|clock [FILTER]: installs a filter of system calls, and
// then allocates in every way. It makes no system call itself but by malloc, threads, sleep and
// write. "first" confines itself before its first allocation; "forbidden" makes a call that no
// filter here allows.
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "../../../include/loft/loft.h"
#include "confine.h"

enum { kMiB = 1 << 20, kThreads = 4, kSlots = 256, kExchanges = 20000 };

// Under loft alone.
#pragma weak loft_purge
#pragma weak loft_stats

static _Atomic(char*) slots[kSlots];

static void say(const char* text) {
  if (write(1, text, strlen(text)) < 0) _exit(119);
}

static void fail(const char* what) {
  say(what);
  say("\n");
  _exit(1);
}

static void pause_for(long milliseconds) {
  const struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);  // time: threads of loft's own may run
}

static void* written(size_t bytes) {
  void* p = malloc(bytes);
  if (p == NULL) fail("no memory");
  memset(p, 0xa5, bytes);
  return p;
}

static char* zero(size_t bytes) {
  char* p = calloc(1, bytes);
  if (p == NULL) fail("no memory");
  for (size_t i = 0; i < bytes; i += 8) {
    if (*(long*)(p + i) != 0) fail("calloc: old data");
  }
  return p;
}

static void zeros(void) {
  const size_t sizes[] = {20 * kMiB, kMiB, 64 * kMiB, 20000, 5000};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
    free(written(sizes[i]));
    char* p = zero(sizes[i]);
    memset(p, 0x5a, sizes[i]);
    free(p);
    free(zero(sizes[i]));
  }
}

static void small(void) {
  enum { kObjects = 40000 };
  static char* objects[kObjects];
  for (int i = 0; i < kObjects; ++i) objects[i] = written(16 + (size_t)i % 1500);
  for (int i = 0; i < kObjects; i += 2) free(objects[i]);
  for (int i = 0; i < kObjects; i += 2) objects[i] = zero(16 + (size_t)i % 3000 * 8);
  for (int i = 0; i < kObjects; ++i) free(objects[i]);
}

static void growth(void) {
  char* p = written(100);
  for (size_t bytes = 200; bytes < 100 * kMiB; bytes *= 2) {
    p = realloc(p, bytes);
    if (p == NULL) fail("realloc: no memory");
    for (size_t i = 0; i < bytes / 2; i += 50) {
      if (p[i] != (char)0xa5) fail("realloc: other data");
    }
    memset(p + bytes / 2, 0xa5, bytes / 2);
  }
  p = realloc(p, 3 * kMiB);
  p = realloc(p, 300);
  free(p);
}

// Frees what others have allocated, sleeps, and frees the rest.
static void* exchange(void* seed) {
  unsigned x = (unsigned)(size_t)seed;
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < kExchanges; ++i) {
      x = x * 1664525 + 1013904223;
      char* mine = written(16 + (x >> 8) % ((x >> 24) == 0 ? 300000 : 2000));
      free(atomic_exchange(&slots[(x >> 16) % kSlots], mine));
    }
    free(written(4 * kMiB));
    pause_for(150);
  }
  return written(100);
}

static void threads(void) {
  pthread_t all[kThreads];
  for (size_t i = 0; i < kThreads; ++i) {
    if (pthread_create(&all[i], NULL, exchange, (void*)i) != 0) fail("no thread");
  }
  for (int i = 0; i < kThreads; ++i) {
    void* last = NULL;
    pthread_join(all[i], &last);
    free(last);
  }
  for (int i = 0; i < kSlots; ++i) free(atomic_exchange(&slots[i], NULL));
}

static void statistics(void) {
  if (loft_stats != NULL) {
    loft_stats_t stats = {.struct_size = sizeof(stats)};
    loft_stats(&stats);
  }
  const struct mallinfo2 info = mallinfo2();
  (void)info;
  char* text = NULL;
  size_t size = 0;
  FILE* file = open_memstream(&text, &size);
  if (file == NULL) fail("no stream");
  malloc_info(0, file);
  fclose(file);
  free(text);
  errno = 0;
}

int main(int argc, char** argv) {
  if (argc < 2) return 125;
  if (strcmp(argv[1], "first") != 0) free(malloc(1));
  if (argc > 2) confine(argv[2]);
  if (strcmp(argv[1], "forbidden") == 0) syscall(SYS_getppid);
  if (strcmp(argv[1], "clock") == 0) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);  // time: whether the call is allowed
    return 0;
  }
  zeros();
  small();
  growth();
  malloc_trim(0);
  pause_for(100);
  threads();
  if (strcmp(argv[1], "statistics") == 0) statistics();
  malloc_trim(0);
  if (loft_purge != NULL) loft_purge(NULL);
  zeros();
  small();
  say("lived\n");
  return 0;
}
