// Threads that end after having allocated, one after another and some at a time, where no key for
// threads is left: taken in main, before the first malloc, or before loft begins (keys_taken.c).
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kThreads = 400, kAtATime = 4, kObjects = 2000 };

static void* work(void* passed) {
  static _Thread_local char* objects[kObjects];
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < kObjects; ++i) {
      const size_t size = (size_t)(i * 37 % 700) + 1;
      objects[i] = malloc(size);
      if (objects[i] == NULL) _exit(3);
      memset(objects[i], i, size);
    }
    for (int i = 0; i < kObjects; ++i) {
      if (objects[i][0] != (char)i) _exit(4);
      free(objects[i]);
    }
  }
  // From another thread, which may have ended.
  free(*(void**)passed);
  *(void**)passed = malloc(100);
  return NULL;
}

int main(int count, char** words) {
  pthread_key_t key;
  while (count > 1 && strcmp(words[1], "take") == 0 && pthread_key_create(&key, NULL) == 0)
    continue;
  void* passed[kAtATime] = {0};
  for (int i = 0; i < kThreads / kAtATime; ++i) {
    pthread_t threads[kAtATime];
    for (int k = 0; k < kAtATime; ++k) {
      if (pthread_create(&threads[k], NULL, work, &passed[k]) != 0) return 1;
    }
    for (int k = 0; k < kAtATime; ++k) pthread_join(threads[k], NULL);
  }
  for (int k = 0; k < kAtATime; ++k) free(passed[k]);
  puts("done");
  return 0;
}
