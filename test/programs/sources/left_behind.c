// A thread fills 100 MiB on one processor, frees nearly all of it and ends. The program goes on
// with a little work on another: what the thread left has to go back to the system, with a
// background thread or without one. Called with an argument, it rests between its works for as long
// as it says that time has passed.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "resident.h"
#include "virtual_time.h"

enum { kObjects = 200000, kBytes = 512, kKept = 128 };

static char* kept[kObjects / kKept + 1];

static void run_on(int processor) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  if (sched_setaffinity(0, sizeof(one), &one) != 0) exit(2);
}

static void* fill(void* unused) {
  run_on(1);
  static char* objects[kObjects];
  for (int i = 0; i < kObjects; ++i) {
    objects[i] = malloc(kBytes);
    memset(objects[i], 1, kBytes);
  }
  for (int i = 0; i < kObjects; ++i) {
    if (i % kKept == 0) {
      kept[i / kKept] = objects[i];
    } else {
      free(objects[i]);
    }
  }
  return unused;
}

int main(int argc, char** argv) {
  (void)argv;
  const bool rests = argc > 1;
  run_on(0);
  const long before = resident_kib();
  pthread_t thread;
  if (pthread_create(&thread, NULL, fill, NULL) != 0 || pthread_join(thread, NULL) != 0) return 2;
  const long little = (long)kObjects * kBytes / 1024 / 4;
  long now = resident_kib() - before;
  while (now > little) {
    char* some[200];
    for (int i = 0; i < 200; ++i) some[i] = malloc(i % 8 == 0 ? 40000 : 64);
    for (int i = 0; i < 200; ++i) free(some[i]);
    if (rests) usleep(10000);  // time: a thread of loft's own runs meanwhile; for the night alone
    if (!rests) pass_time(10);
    now = resident_kib() - before;
  }
  puts("gone");
  return 0;
}
