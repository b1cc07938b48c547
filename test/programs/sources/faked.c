// faked one|threads [FILTER [later]]: fills objects with a pattern, frees them, has memory
// given back, and takes as many by calloc: these are zero. A filter of system calls is installed
// first, or after a round of that.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../include/loft/loft.h"
#include "confine.h"
#include "virtual_time.h"

enum { kMiB = 1 << 20, kMost = 2048, kSizes = 13, kThreads = 3, kKept = 16 };
static const size_t sizes[kSizes] = {64,    1000,  4096,  5000,   8192,    16000,  24576,
                                     32768, 40000, 70000, 300000, 1 << 20, 6 << 20};

// Under loft alone.
#pragma weak loft_purge
#pragma weak loft_heap_create
#pragma weak loft_heap_calloc
#pragma weak loft_heap_malloc
#pragma weak loft_heap_free

static atomic_ulong old_words;
static atomic_ulong refused;

// Objects of all sizes, in a heap of the program's own or in none.
struct Objects {
  char* all[kSizes][kMost];
  loft_heap_t* heap;
};
static struct Objects of_thread[kThreads + 1][2];

static size_t count_of(size_t bytes) {
  const size_t count = kMiB / bytes + 1;
  return count < kMost ? count : kMost;
}

static void fill(struct Objects* o) {
  for (size_t s = 0; s < kSizes; ++s) {
    for (size_t i = 0; i < count_of(sizes[s]); ++i) {
      char* p = o->heap != NULL ? loft_heap_malloc(o->heap, sizes[s]) : malloc(sizes[s]);
      if (p == NULL) {
        ++refused;
      } else {
        memset(p, 0xa5, sizes[s]);
      }
      o->all[s][i] = p;
    }
  }
}

// All, or all but some, so that slabs and blocks have holes.
static void drop(struct Objects* o, int all) {
  for (size_t s = 0; s < kSizes; ++s) {
    for (size_t i = 0; i < count_of(sizes[s]); ++i) {
      if (!all && i % kKept == 1) continue;
      if (o->heap != NULL) {
        loft_heap_free(o->heap, o->all[s][i]);
      } else {
        free(o->all[s][i]);
      }
      o->all[s][i] = NULL;
    }
  }
}

static void look(struct Objects* o) {
  for (size_t s = 0; s < kSizes; ++s) {
    for (size_t i = 0; i < count_of(sizes[s]); ++i) {
      if (o->all[s][i] != NULL) continue;
      char* p = o->heap != NULL ? loft_heap_calloc(o->heap, 1, sizes[s]) : calloc(1, sizes[s]);
      if (p == NULL) ++refused;
      for (size_t k = 0; p != NULL && k + 8 <= sizes[s]; k += 8) {
        if (*(long*)(p + k) != 0) ++old_words;
      }
      o->all[s][i] = p;
    }
  }
}

static void nothing(void) {}
static void trim(void) { malloc_trim(0); }
static void purge(void) {
  if (loft_purge != NULL) loft_purge(NULL);
}
static void later(void) { pass_time(600); }

// Objects of malloc, and of a heap.
static void one_round(struct Objects* o, void (*give_back)(void), int all) {
  const int kinds = o[1].heap != NULL ? 2 : 1;
  for (int k = 0; k < kinds; ++k) fill(&o[k]);
  for (int k = 0; k < kinds; ++k) drop(&o[k], all);
  give_back();
  for (int k = 0; k < kinds; ++k) look(&o[k]);
  for (int k = 0; k < kinds; ++k) drop(&o[k], 1);
}

static void* rounds(void* objects) {
  one_round(objects, nothing, 1);
  one_round(objects, trim, 1);
  one_round(objects, trim, 0);
  one_round(objects, purge, 1);
  one_round(objects, purge, 0);
  one_round(objects, later, 0);
  return NULL;
}

static void threads(void) {
  pthread_t all[kThreads];
  for (int i = 0; i < kThreads; ++i) pthread_create(&all[i], NULL, rounds, of_thread[i]);
  for (int i = 0; i < kThreads; ++i) pthread_join(all[i], NULL);
}

int main(int argc, char** argv) {
  if (argc < 2) return 125;
  if (loft_heap_create != NULL) {
    for (int i = 0; i <= kThreads; ++i) of_thread[i][1].heap = loft_heap_create();
  }
  struct Objects* mine = of_thread[kThreads];
  if (argc > 3) rounds(mine);
  if (argc > 2) confine(argv[2]);
  if (strcmp(argv[1], "threads") == 0) {
    threads();
  } else {
    rounds(mine);
  }
  printf("old words %lu, refused %lu\n", old_words, refused);
  return 0;
}
