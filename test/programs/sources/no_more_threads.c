// no_more_threads WHAT: a process that gets one thread beside its first. With "refused", the system
// gives it no other one; with "large", each thread has more thread-local variables than fit on a
// small stack. Memory goes back all the same.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "resident.h"
#include "virtual_time.h"

enum { kBlocks = 14, kBytes = 4 << 20 };

static __thread char large[512 * 1024];
static int refuses;

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*begin)(void*),
                   void* argument) {
  if (refuses) return EAGAIN;
  int (*create)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) =
      (int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*))dlsym(RTLD_NEXT,
                                                                                 "pthread_create");
  return create(thread, attributes, begin, argument);
}

static void* wait_for_ever(void* unused) {
  large[1] = 1;
  free(malloc(100));
  for (;;) pause();
  return unused;
}

int main(int argc, char** argv) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, wait_for_ever, NULL) != 0) return 124;
  refuses = argc > 1 && strcmp(argv[1], "refused") == 0;
  char* blocks[kBlocks];
  for (int i = 0; i < kBlocks; ++i) {
    blocks[i] = malloc(kBytes);
    if (blocks[i] == NULL) return 123;
    memset(blocks[i], 1, kBytes);
  }
  for (int i = 0; i < kBlocks; ++i) free(blocks[i]);
  // Slow paths go on meanwhile.
  while (resident_kib() / 1024 > 20) {
    void* some[300];
    for (int i = 0; i < 300; ++i) some[i] = malloc(3000 + (size_t)i * 100);
    for (int i = 0; i < 300; ++i) free(some[i]);
    pass_time(1);
  }
  puts("went back");
  return 0;
}
