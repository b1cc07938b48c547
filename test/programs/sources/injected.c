// injected: allocates in every way, in threads, in a child, in heaps of its own, and lives with
// every refusal. What it prints does not depend on what is refused: it looks at what its objects
// hold alone.
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../include/loft/loft.h"
#include "virtual_time.h"

// Under loft alone.
#pragma weak loft_heap_create
#pragma weak loft_heap_calloc
#pragma weak loft_heap_free
#pragma weak loft_heap_destroy
#pragma weak loft_purge
#pragma weak loft_stats

enum { kMiB = 1 << 20, kThreads = 2, kSlots = 64, kSmall = 1000, kSizes = 7 };
static const size_t sizes[kSizes] = {100, 5000, 20000, 40000, 300000, 1 << 20, 4 << 20};

static _Atomic(char*) slots[kSlots];

static void fail(const char* what) {
  if (write(1, what, strlen(what)) < 0) _exit(2);
  _exit(1);
}

// NULL says why.
static char* checked(char* p) {
  if (p == NULL && errno != ENOMEM) fail("refused without ENOMEM\n");
  errno = 0;
  return p;
}

static char* filled(size_t bytes, char with) {
  char* p = checked(malloc(bytes));
  if (p != NULL) memset(p, with, bytes);
  return p;
}

static void look(const char* p, size_t bytes, char at) {
  if (p != NULL && (p[0] != at || memcmp(p, p + 1, bytes - 1) != 0)) fail("other data\n");
}

static void objects(void) {
  for (size_t s = 0; s < kSizes; ++s) {
    free(filled(sizes[s], 7));
    char* p = checked(calloc(1, sizes[s]));
    look(p, sizes[s], 0);
    if (p != NULL) memset(p, 5, sizes[s]);
    char* more = checked(realloc(p, sizes[s] * 3));
    if (more == NULL) {
      look(p, sizes[s], 5);
      free(p);
      continue;
    }
    if (p != NULL) look(more, sizes[s], 5);
    char* less = checked(realloc(more, sizes[s] / 2));
    if (p != NULL) look(less != NULL ? less : more, sizes[s] / 2, 5);
    free(less != NULL ? less : more);
    void* aligned = NULL;
    const int result = posix_memalign(&aligned, 1 << 16, sizes[s]);
    if (result != 0 && result != ENOMEM) fail("posix_memalign\n");
    if (result == 0) free(aligned);
  }
}

static void small(void) {
  static _Thread_local char* all[kSmall];
  for (int i = 0; i < kSmall; ++i) all[i] = filled(16 + (size_t)i % 2000, (char)(i | 1));
  for (int i = 0; i < kSmall; ++i) {
    look(all[i], 16 + (size_t)i % 2000, (char)(i | 1));
    if (i % 8 != 0) free(all[i]);
  }
  malloc_trim(0);
  for (int i = 0; i < kSmall; i += 8) {
    look(all[i], 16 + (size_t)i % 2000, (char)(i | 1));
    free(all[i]);
  }
}

static void heap(void) {
  if (loft_heap_create == NULL) return;
  loft_heap_t* mine = loft_heap_create();
  if (mine == NULL) return;
  for (size_t s = 0; s < kSizes; ++s) {
    for (int i = 0; i < 2; ++i) {
      char* p = checked(loft_heap_calloc(mine, 1, sizes[s]));
      look(p, sizes[s], 0);
      if (p != NULL) memset(p, 3, sizes[s]);
      loft_heap_free(mine, p);
    }
  }
  loft_heap_destroy(mine);
}

static void* work(void* seed) {
  unsigned x = (unsigned)(size_t)seed;
  for (int i = 0; i < 2000; ++i) {
    x = x * 1664525 + 1013904223;
    free(atomic_exchange(&slots[(x >> 16) % kSlots], filled(16 + (x >> 8) % 1500, 9)));
  }
  objects();
  small();
  return NULL;
}

static void threads(void) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 << 10);
  pthread_t all[kThreads];
  int started[kThreads];
  for (size_t i = 0; i < kThreads; ++i) {
    started[i] = pthread_create(&all[i], &attributes, work, (void*)i) == 0;
    if (!started[i]) work((void*)i);
  }
  // Longer than memory stays that nobody needs.
  pass_time(30);
  for (int i = 0; i < kThreads; ++i) {
    if (started[i]) pthread_join(all[i], NULL);
  }
  for (int i = 0; i < kSlots; ++i) free(atomic_exchange(&slots[i], NULL));
}

int main(void) {
  objects();
  small();
  heap();
  threads();
  const pid_t child = fork();
  if (child == 0) {
    objects();
    threads();
    _exit(0);
  }
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0) continue;
  if (loft_purge != NULL) loft_purge(NULL);
  loft_stats_t stats = {.struct_size = sizeof(stats)};
  if (loft_stats != NULL) loft_stats(&stats);
  objects();
  if (status != 0) fail("the child failed\n");
  if (write(1, "lived\n", 6) != 6) return 1;
  return 0;
}
