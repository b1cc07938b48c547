// quiet WHO: fills 100 MiB with small objects, of which WHO frees seven of ten: "self", or "other"
// for a thread that waits afterwards. From then on the program does what a server without requests
// does: once a second it takes one object and frees it. Prints how much is resident in KiB beyond
// what was before, when the objects are freed and ten such seconds later.
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "resident.h"
#include "virtual_time.h"

enum { kSize = 112, kCount = (100 << 20) / kSize };

static void* objects[kCount];
static sem_t freed;
static sem_t never;

static void free_most(void) {
  for (int i = 0; i < kCount / 10 * 7; ++i) free(objects[i]);
}

static void* free_most_and_wait(void* unused) {
  free_most();
  sem_post(&freed);
  sem_wait(&never);
  return unused;
}

int main(int argc, char** argv) {
  if (argc != 2) return 120;
  free(malloc(48));
  memset(objects, 1, sizeof(objects));
  const long before = resident_kib();
  for (int i = 0; i < kCount; ++i) objects[i] = memset(malloc(kSize), 1, kSize);
  if (strcmp(argv[1], "self") == 0) {
    free_most();
  } else {
    pthread_t other;
    sem_init(&freed, 0, 0);
    sem_init(&never, 0, 0);
    if (pthread_create(&other, NULL, free_most_and_wait, NULL) != 0) return 122;
    sem_wait(&freed);
  }
  const long after = resident_kib() - before;
  for (int second = 0; second < 10; ++second) {
    pass_time(1000);
    free(malloc(48));
  }
  printf("%ld %ld\n", after, resident_kib() - before);
  return 0;
}
