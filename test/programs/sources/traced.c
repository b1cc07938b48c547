// Threads that allocate and free objects of all lengths, so that loft makes all of its calls. With
// an argument, an object is freed twice in the end.
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kThreads = 4, kRounds = 40, kSmall = 3000 };

static void* work(void* unused) {
  (void)unused;
  for (int round = 0; round < kRounds; ++round) {
    const size_t length = 100000 + (size_t)round * 150000;
    char* object = malloc(length);
    memset(object, 1, 5000);
    static _Thread_local char* small[kSmall];
    for (int i = 0; i < kSmall; ++i) small[i] = malloc((size_t)(i % 1500) + 1);
    object = realloc(object, length * 2);
    free(object);
    for (int i = 0; i < kSmall; ++i) free(small[i]);
    if (round % 10 == 0) malloc_trim(0);
  }
  return NULL;
}

int main(int count, char** words) {
  (void)words;
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, work, NULL);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  puts("done");
  fflush(stdout);
  if (count == 1) return 0;
  void* const object = malloc(500000);
  free(object);
  free(object);
  return 0;
}
