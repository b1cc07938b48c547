/* Threads that have a burst of objects each, one thread after another, and then wait for the end.
   Arguments: how many, KiB of a burst, the shortest and the longest object. The peak of what was
   resident goes to the output, in KiB. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t burst, shortest, longest;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t all_had_it;
static pthread_barrier_t end;

static void have_a_burst(void) {
  void** const objects = malloc(burst / shortest * sizeof(void*));
  size_t count = 0;
  size_t bytes = 0;
  for (size_t size = shortest; bytes + size <= burst; bytes += size) {
    objects[count] = malloc(size);
    if (objects[count] == NULL) abort();
    memset(objects[count++], 1, size);
    size = size * 5 / 4 + 1;
    if (size > longest) size = shortest;
  }
  for (size_t i = 0; i < count; ++i) free(objects[i]);
  free(objects);
}

static void* run(void* unused) {
  pthread_mutex_lock(&turn);
  have_a_burst();
  pthread_mutex_unlock(&turn);
  pthread_barrier_wait(&all_had_it);
  pthread_barrier_wait(&end);
  return unused;
}

static long peak_kib(void) {
  char line[256];
  long peak = -1;
  FILE* const file = fopen("/proc/self/status", "r");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    if (sscanf(line, "VmHWM: %ld", &peak) == 1) break;
  }
  if (file != NULL) fclose(file);
  return peak;
}

int main(int count, char** words) {
  if (count != 5) return 2;
  const int threads = atoi(words[1]);
  burst = strtoul(words[2], NULL, 10) << 10;
  shortest = strtoul(words[3], NULL, 10);
  longest = strtoul(words[4], NULL, 10);
  pthread_t* const all = calloc((size_t)threads, sizeof *all);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 65536);
  pthread_barrier_init(&all_had_it, NULL, (unsigned)threads + 1);
  pthread_barrier_init(&end, NULL, (unsigned)threads + 1);
  for (int i = 0; i < threads; ++i) {
    if (pthread_create(&all[i], &attributes, run, NULL) != 0) return 1;
  }
  pthread_barrier_wait(&all_had_it);
  printf("%ld\n", peak_kib());
  pthread_barrier_wait(&end);
  for (int i = 0; i < threads; ++i) pthread_join(all[i], NULL);
  return 0;
}
