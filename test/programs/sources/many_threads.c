// many_threads COUNT: creates and joins threads that allocate, free, and leave objects for others
// to free. Prints the resident and the virtual size in KiB after a twentieth of them and at the
// end. The first ones do much, each beside the others, so that what a busy thread gets is there
// before it is measured.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kAtOnce = 4, kObjects = 12 };

struct work {
  pthread_t thread;
  size_t seed;
  void* left[kObjects];
};

static void* run(void* argument) {
  struct work* work = argument;
  for (int i = 0; i < kObjects; i++) {
    const size_t size = 1 + (work->seed * 7919 + (size_t)i * 104729) % (i % 6 == 0 ? 20000 : 700);
    char* object = malloc(size);
    if (object == NULL) abort();
    memset(object, (int)i, size < 64 ? size : 64);
    work->left[i] = object;
  }
  for (int i = 0; i < kObjects; i += 2) {
    free(work->left[i]);
    work->left[i] = NULL;
  }
  return NULL;
}

static pthread_barrier_t all_busy;

static void* run_long(void* argument) {
  for (int i = 0; i < 2000; i++) free(malloc(100));
  pthread_barrier_wait(&all_busy);
  return argument;
}

static void print_sizes(void) {
  FILE* status = fopen("/proc/self/status", "r");
  char line[200];
  long resident = 0;
  long virtual_size = 0;
  while (fgets(line, sizeof(line), status) != NULL) {
    sscanf(line, "VmRSS: %ld", &resident);
    sscanf(line, "VmSize: %ld", &virtual_size);
  }
  fclose(status);
  printf("%ld %ld\n", resident, virtual_size);
}

int main(int argc, char** argv) {
  const long count = argc > 1 ? atol(argv[1]) : 0;
  static struct work works[kAtOnce];
  pthread_barrier_init(&all_busy, NULL, kAtOnce);
  for (int i = 0; i < kAtOnce; i++) {
    if (pthread_create(&works[i].thread, NULL, run_long, NULL) != 0) abort();
  }
  for (int i = 0; i < kAtOnce; i++) pthread_join(works[i].thread, NULL);
  for (long done = 0; done < count; done += kAtOnce) {
    for (int i = 0; i < kAtOnce; i++) {
      works[i].seed = (size_t)(done + i);
      if (pthread_create(&works[i].thread, NULL, run, &works[i]) != 0) abort();
    }
    for (int i = 0; i < kAtOnce; i++) {
      pthread_join(works[i].thread, NULL);
      for (int j = 0; j < kObjects; j++) free(works[i].left[j]);
    }
    if (done == count / 20 / kAtOnce * kAtOnce) print_sizes();
  }
  print_sizes();
  return 0;
}
