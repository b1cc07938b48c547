// A library that begins before the program does, and takes all of the system's keys for threads.
#include <pthread.h>

__attribute__((constructor)) static void take(void) {
  pthread_key_t key;
  while (pthread_key_create(&key, NULL) == 0) continue;
}

void needed(void) {}
