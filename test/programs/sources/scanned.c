// A program that damages an object and never gives it to malloc or free again; loft looks for that
// by itself. `scanned WHAT [again]`: "whole", "beyond" or "freed". Ends when loft has stopped it,
// or, by itself unless "again" is said, when loft's thread has nothing left to look at.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { kObjects = 200 * 1000, kSize = 100, kWorth = 20 << 20 };
static char* volatile objects[kObjects];

// Without an allocation, which would have loft's thread begin anew.
static unsigned threads(void) {
  struct stat folder;
  return stat("/proc/self/task", &folder) == 0 ? (unsigned)folder.st_nlink - 2 : 0;
}

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
  // A thread that was there may have looked already: memory that is not needed brings another one.
  do {
    for (int i = 0; i < 4; ++i) free(memset(malloc(kWorth), 1, kWorth));
    while (threads() != 1) usleep(1000);
  } while (argc > 2);
  printf("survived\n");
  return 0;
}
