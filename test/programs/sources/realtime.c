// realtime: three threads on one processor, of which the first runs before the second, and both
// before the third (SCHED_FIFO, and SCHED_OTHER). They resize and free large objects, trim and
// purge. None may wait by spinning for one that it keeps from running.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../../include/loft/loft.h"

#pragma weak loft_purge

enum { kKiB = 1 << 10, kThreads = 3, kObjects = 64, kWakes = 1500 };

static atomic_bool over;

static void pause_for(long microseconds) {
  nanosleep(&(struct timespec){0, microseconds * 1000}, NULL);  // time: a test of the night
}

static void* resized(char* p, size_t bytes, size_t touched) {
  p = realloc(p, bytes);
  if (p == NULL) exit(120);
  memset(p + bytes - touched, 1, touched);
  return p;
}

// Wakes at any place of what the others do. What it shortens leaves pages behind its end, that
// whoever trims gives back.
static void* urgent(void* unused) {
  static char* objects[kObjects];
  unsigned x = 1;
  for (int i = 0; i < kWakes; ++i) {
    for (int k = 0; k < kObjects / 4; ++k) {
      x = x * 1664525 + 1013904223;
      char** p = &objects[(x >> 8) % kObjects];
      const size_t bytes = (1 + (x >> 16) % 4) * (64 * (size_t)kKiB);
      *p = resized(*p, bytes + 128 * kKiB, 192 * kKiB);
      *p = resized(*p, bytes + 100, 100);
      if ((x >> 24) % 16 == 0) {
        free(*p);
        *p = NULL;
      }
    }
    pause_for(20 + (x >> 12) % 1000);
  }
  for (int i = 0; i < kObjects; ++i) free(objects[i]);
  over = true;
  return unused;
}

static void* less_urgent(void* unused) {
  while (!over) malloc_trim(0);
  return unused;
}

static void* usual(void* unused) {
  unsigned x = 2;
  while (!over) {
    x = x * 1664525 + 1013904223;
    char* p = resized(NULL, (40 + (x >> 8) % 2000) * (size_t)kKiB, kKiB);
    p = resized(p, 33 * kKiB, kKiB);
    free(resized(p, (100 + (x >> 16) % 1000) * (size_t)kKiB, kKiB));
    if ((x >> 24) % 16 == 0 && loft_purge != NULL) loft_purge(NULL);
  }
  return unused;
}

int main(void) {
  cpu_set_t one;
  sched_getaffinity(0, sizeof(one), &one);
  int first = 0;
  while (!CPU_ISSET(first, &one)) ++first;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  if (sched_setaffinity(0, sizeof(one), &one) != 0) return 77;
  void* (*const functions[kThreads])(void*) = {urgent, less_urgent, usual};
  const struct sched_param priorities[kThreads] = {{20}, {10}, {0}};
  pthread_t threads[kThreads];
  // Above the others, or it would not come to start them.
  const struct sched_param mine = {30};
  if (sched_setscheduler(0, SCHED_FIFO, &mine) != 0) return 77;
  for (int i = 0; i < kThreads; ++i) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&attributes, i == kThreads - 1 ? SCHED_OTHER : SCHED_FIFO);
    pthread_attr_setschedparam(&attributes, &priorities[i]);
    if (pthread_create(&threads[i], &attributes, functions[i], NULL) != 0) return 77;
  }
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  puts("ended");
  return 0;
}
