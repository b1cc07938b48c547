// small_group [threads]: in a control group that has room for what is in use, and for little
// besides. What was small objects is wanted by mmap, by large objects and by files in memory in
// turn.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kMiB = 1 << 20, kRounds = 6 };

static void small(size_t total, size_t bytes) {
  const size_t count = total / bytes;
  char** objects = malloc(count * sizeof(char*));
  for (size_t i = 0; i < count; ++i) {
    objects[i] = malloc(bytes);
    memset(objects[i], 1, bytes);
  }
  for (size_t i = 0; i < count; ++i) free(objects[i]);
  free(objects);
}

static void large(size_t bytes) {
  char* p = malloc(bytes);
  memset(p, 1, bytes);
  free(p);
}

static void map(size_t bytes) {
  char* p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) exit(120);
  memset(p, 1, bytes);
  munmap(p, bytes);
}

static void* work(void* unused) {
  for (int round = 0; round < kRounds; ++round) {
    small(40 * (size_t)kMiB, 900 + (size_t)round * 100);
    map(45 * (size_t)kMiB);
    large(40 * (size_t)kMiB);
    map(45 * (size_t)kMiB);
    for (int i = 0; i < 10; ++i) large(4 * (size_t)kMiB);
    small(40 * (size_t)kMiB, 6000);
    large(40 * (size_t)kMiB);
  }
  return unused;
}

int main(int argc, char** argv) {
  (void)argv;
  pthread_t thread;
  if (argc < 2) {
    work(NULL);
  } else if (pthread_create(&thread, NULL, work, NULL) != 0 || pthread_join(thread, NULL) != 0) {
    return 119;
  }
  puts("lived");
  return 0;
}
