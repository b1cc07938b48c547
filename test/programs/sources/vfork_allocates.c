// vfork_allocates THREADS: children of vfork allocate and free before they run another program, as
// old shells do, while THREADS threads of the parent do so, too, and one waits. Every object's
// contents are checked. Then the parent frees 200 MiB, and says how many of them are still there
// after a while.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "virtual_time.h"

enum { kRounds = 60, kObjects = 3000, kLarge = 20000, kLargeBytes = 10000 };

static atomic_int stop;
static atomic_int wrong;

static size_t size_of(unsigned i) { return 16 + i * 7919u % (i % 50 == 0 ? 60000 : 10000); }

// Who writes, and the object's number: an object that two have is seen.
static void fill(char* object, unsigned i, unsigned owner) {
  unsigned words[2] = {owner, i};
  memcpy(object, words, sizeof words);
  memset(object + sizeof words, (int)(owner + i), size_of(i) - sizeof words);
}

static void check(const char* object, unsigned i, unsigned owner) {
  unsigned words[2] = {owner, i};
  const size_t size = size_of(i);
  if (memcmp(object, words, sizeof words) != 0) ++wrong;
  if (object[size - 1] != (char)(owner + i) || object[size / 2] != object[size - 1]) ++wrong;
}

static void* wait_for_the_end(void* unused) {
  free(malloc(1 << 20));
  while (!stop) usleep(100000);
  return unused;
}

// Number 0 only waits: loft may have threads of its own in a process of which two allocate.
static void* work(void* number) {
  if (number == NULL) return wait_for_the_end(NULL);
  const unsigned owner = (unsigned)(size_t)number;
  char* objects[200] = {0};
  for (unsigned n = 0; !stop; ++n) {
    const unsigned i = n % 200;
    if (objects[i] != NULL) {
      check(objects[i], i, owner);
      free(objects[i]);
    }
    objects[i] = malloc(size_of(i));
    fill(objects[i], i, owner);
    if (i == 0) sched_yield();
  }
  for (unsigned i = 0; i < 200; ++i) free(objects[i]);
  return NULL;
}

int main(int argc, char** argv) {
  const int threads = argc > 1 ? atoi(argv[1]) : 0;
  pthread_t workers[64];
  for (int t = 0; t <= threads; ++t) {
    pthread_create(&workers[t], NULL, work, (void*)(size_t)(t == 0 ? 0 : t + 100));
  }
  static char* objects[kObjects];  // shared with the children, one of which runs at a time
  static char* kept[kObjects];     // those that children leave to the parent
  for (unsigned round = 0; round < kRounds; ++round) {
    const pid_t child = vfork();
    if (child == 0) {
      for (unsigned i = 0; i < kObjects; ++i) {
        objects[i] = malloc(size_of(i));
        fill(objects[i], i, round);
      }
      for (unsigned i = 0; i < kObjects; ++i) {
        check(objects[i], i, round);
        if (i % 3 != 0) free(objects[i]);
        kept[i] = i % 3 == 0 ? objects[i] : NULL;
      }
      char* text = malloc(200000);
      sprintf(text, "ROUND=%u", round);
      char* environment[] = {text, NULL};
      execle("/bin/true", "true", (char*)NULL, environment);
      _exit(1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    if (status != 0) ++wrong;
    for (unsigned i = 0; i < 500; ++i) free(malloc(i * 300));
    for (unsigned i = 0; i < kObjects; ++i) {
      if (kept[i] != NULL) check(kept[i], i, round);
      free(kept[i]);
    }
  }
  // libc tells every thread that it knows, and waits for each.
  if (setuid(getuid()) != 0) ++wrong;
  static char* large[kLarge];
  for (unsigned i = 0; i < kLarge; ++i) memset(large[i] = malloc(kLargeBytes), 1, kLargeBytes);
  for (unsigned i = 0; i < kLarge; ++i) free(large[i]);
  for (long resident = 80 * 256; resident >= 80 * 256;) {
    pass_time(100);
    FILE* file = fopen("/proc/self/statm", "r");
    if (fscanf(file, "%*d %ld", &resident) != 1) ++wrong;
    fclose(file);
  }
  stop = 1;
  for (int t = 0; t <= threads; ++t) pthread_join(workers[t], NULL);
  printf("%d wrong, given back\n", wrong);
  return wrong != 0;
}
