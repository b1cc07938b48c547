// A program that damages an object and never gives it to malloc or free again; loft looks for that
// by itself. `scanned WHAT [rests]`: "whole", "beyond" or "freed". Ends when loft has stopped it,
// or after a minute, which passes by a clock of its own; with "rests" by the system's, while a
// thread of loft's own looks.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "virtual_time.h"

enum { kObjects = 200 * 1000, kSize = 100, kWorth = 20 << 20 };
static char* volatile objects[kObjects];

static void* free_some(void* unused) {
  for (int i = 1; i < kObjects; i += 4) free(objects[i]);
  return unused;
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  for (int i = 0; i < kObjects; i++) {
    objects[i] = malloc(kSize);
    memset(objects[i], 'A', kSize);
  }
  // Half of them, so that no page is wholly free; by two threads.
  for (int i = 3; i < kObjects; i += 4) free(objects[i]);
  pthread_t thread;
  if (pthread_create(&thread, NULL, free_some, NULL) != 0) return 2;
  pthread_join(thread, NULL);
  char* const victim = objects[kObjects / 2];
  if (strcmp(argv[1], "beyond") == 0) victim[kSize] = 0;
  if (strcmp(argv[1], "freed") == 0) {
    // Some of them wait to be handed out: not these alone are written to.
    for (int i = 3; i < kObjects / 2; i += 4) objects[i][10] = 'B';
  }
  printf("%p\n", (void*)victim);
  fflush(stdout);
  for (int tick = 0; tick < 600; ++tick) {
    char* some[20];
    for (int i = 0; i < 20; ++i) some[i] = memset(malloc(kWorth / 20), 1, kWorth / 20);
    for (int i = 0; i < 20; ++i) free(some[i]);
    if (argc > 2) usleep(100000);  // time: a thread of loft's own looks; for the night alone
    if (argc == 2) pass_time(100);
  }
  printf("survived\n");
  return 0;
}
