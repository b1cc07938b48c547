// limits WHAT [ARGUMENT]...: what a program may do within limits of memory. Prints one line a
// finding, for a comparison with another malloc.
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "virtual_time.h"

static const size_t kMiB = 1 << 20;

// From /proc/self/status, in KiB. No allocation on the way.
static long status_kib(const char* name) {
  static char text[8192];
  FILE* file = fopen("/proc/self/status", "r");
  if (file == NULL) exit(124);
  const size_t bytes = fread(text, 1, sizeof(text) - 1, file);
  text[bytes] = '\0';
  fclose(file);
  const char* line = strstr(text, name);
  return line == NULL ? 0 : atol(line + strlen(name));
}

static void limit(int resource, size_t bytes) {
  const struct rlimit both = {bytes, bytes};
  if (setrlimit(resource, &both) != 0) exit(123);
}

static void* nothing(void* p) { return p; }

static void* mapped(size_t bytes) {
  void* p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

static const char* answer(int well) { return well ? "yes" : "no"; }

static void small_things(void) {
  void* map = mapped(kMiB);
  printf("mmap %s\n", answer(map != NULL));
  if (map != NULL) munmap(map, kMiB);
  pthread_t thread;
  const int failed = pthread_create(&thread, NULL, nothing, NULL);
  printf("thread %s\n", answer(!failed));
  if (!failed) pthread_join(thread, NULL);
  char* few = malloc(2 * kMiB);
  printf("malloc %s\n", answer(few != NULL));
  if (few != NULL) memset(few, 1, 2 * kMiB);
  free(few);
}

// Takes pieces until one is refused, which it must be in time, and gives all back.
static size_t fill(size_t bytes) {
  const size_t most = 12000;
  void** first = NULL;
  size_t count = 0;
  for (void** p; count < most && (p = malloc(bytes)) != NULL; ++count) {
    *p = first;
    first = p;
  }
  const int error = errno;
  while (first != NULL) {
    void** next = *first;
    free(first);
    first = next;
  }
  if (count == most) puts("no limit");
  if (count < most && error != ENOMEM) exit(122);
  return count;
}

static void fill_twice(size_t bytes) {
  printf("pieces %zu\n", fill(bytes));
  printf("pieces again %zu\n", fill(bytes));
  malloc_trim(0);
  small_things();
}

static void lowered(const char* bytes, const char* piece) {
  free(malloc(100));
  small_things();
  const size_t wanted = strtoull(bytes, NULL, 10);
  limit(RLIMIT_AS, bytes[0] == '+' ? (size_t)status_kib("VmSize:") * 1024 + wanted : wanted);
  small_things();
  // A malloc may have mapped some of it before.
  printf("too much %s\n", answer(malloc(strtoull(bytes, NULL, 10) + 16 * kMiB) != NULL));
  fill_twice(strtoull(piece, NULL, 10));
}

// A large object's room is to be had by mmap.
static void handed_on(const char* mib, const char* how) {
  const size_t bytes = strtoull(mib, NULL, 10) * kMiB;
  char* large = malloc(bytes);
  if (large == NULL) exit(121);
  memset(large, 1, bytes);
  free(large);
  if (strchr(how, 't') != NULL) malloc_trim(0);
  if (strchr(how, 's') != NULL) pass_time(2000), free(malloc(100000));
  printf("mmap %s\n", answer(mapped(bytes) != NULL));
}

// As a user who may lock little, whoever has started the program: 64 MiB, or less where that is
// more than there is to be had.
static void lock(const char* which) {
  free(malloc(100));
  struct rlimit now;
  getrlimit(RLIMIT_MEMLOCK, &now);
  const size_t most = now.rlim_max < 64 * kMiB ? now.rlim_max : 64 * kMiB;
  limit(RLIMIT_MEMLOCK, most);
  if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) exit(120);
  const int current = strchr(which, 'c') != NULL ? MCL_CURRENT : 0;
  const int future = strchr(which, 'f') != NULL ? MCL_FUTURE : 0;
  printf("mlockall %s\n", answer(mlockall(current | future) == 0));
  enum { kObjects = 500 };
  char* objects[kObjects];
  int refused = 0;
  for (int i = 0; i < kObjects; ++i) refused += (objects[i] = calloc(1, 1000)) == NULL;
  for (int i = 0; i < kObjects; ++i) free(objects[i]);
  void* large = malloc(most / 4);
  printf("objects %s, a large one %s\n", answer(!refused), answer(large != NULL));
  // A malloc may have mapped some of it before.
  if (future) printf("too large a one %s\n", answer(malloc(2 * most) != NULL));
  free(large);
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 128 << 10);  // 8 MiB are few: the code of libraries counts, too
  pthread_t thread;
  const int failed = pthread_create(&thread, &small, nothing, NULL);
  printf("thread %s\n", answer(!failed));
  if (!failed) pthread_join(thread, NULL);
}

// Locked pages cannot be discarded. Prints how much of 200 MB stays that nobody needs.
static void locked_memory(const char* how) {
  // A processor that the program has left keeps what its cache may have, which is not the question.
  cpu_set_t here;
  CPU_ZERO(&here);
  CPU_SET(sched_getcpu(), &here);
  if (sched_setaffinity(0, sizeof(here), &here) != 0) exit(117);
  enum { kSmall = 200000, kLarge = 25 };
  static char* objects[kSmall + kLarge];
  memset(objects, 0, sizeof(objects));
  if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) exit(119);
  const long before = status_kib("VmRSS:");
  for (int i = 0; i < kSmall; ++i) objects[i] = malloc(500);
  for (int i = kSmall; i < kSmall + kLarge; ++i) objects[i] = malloc(4 * kMiB);
  if (status_kib("VmRSS:") - before < 180 << 10) exit(118);
  for (int i = 0; i < kSmall + kLarge; ++i) free(objects[i]);
  if (strchr(how, 't') != NULL) malloc_trim(0);
  // What comes back by itself comes back along with calls.
  while (strchr(how, 't') == NULL && status_kib("VmRSS:") - before > 27 << 10) {
    for (int i = 0; i < 100; ++i) objects[i] = malloc(i % 8 == 0 ? 40000 : 64);
    for (int i = 0; i < 100; ++i) free(objects[i]);
    pass_time(10);
  }
  printf("KiB left %ld\n", status_kib("VmRSS:") - before);
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  const char* one = argc > 2 ? argv[2] : "";
  const char* two = argc > 3 ? argv[3] : "";
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (strcmp(what, "lowered") == 0) lowered(one, two);
  if (strcmp(what, "fill") == 0) fill_twice(strtoull(one, NULL, 10));
  if (strcmp(what, "data") == 0) limit(RLIMIT_DATA, 300 * kMiB), fill_twice(kMiB);
  if (strcmp(what, "handed on") == 0) handed_on(one, two);
  if (strcmp(what, "lock") == 0) lock(one);
  if (strcmp(what, "locked memory") == 0) locked_memory(one);
  if (strcmp(what, "size") == 0) printf("KiB %ld\n", status_kib("VmSize:"));
  return 0;
}
