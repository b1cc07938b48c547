// sanitized [stale]: threads allocate; with an argument one writes to an object that was freed.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void* work(void* unused) {
  for (int i = 0; i < 10000; ++i) {
    char* const object = malloc((size_t)i % 5000 + 1);
    object[0] = 1;
    free(object);
  }
  return unused;
}

int main(int argc, char** argv) {
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) pthread_create(&threads[i], NULL, work, NULL);
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
  if (argc > 1) {
    volatile char* const object = malloc(40);
    free((void*)object);
    object[3] = argv[1][0];
  }
  puts("done");
  return 0;
}
