// loaded_by_thread LIBRARY: a thread that is not the first opens the library and uses it, so much
// that there is something to look after; the first one has ended by itself when that thread ends,
// and the process is to end with it.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "first_thread.h"
#include "virtual_time.h"

static void use_memory(void* (*take)(size_t), void (*give)(void*)) {
  enum { kObjects = 100000 };
  static char* objects[kObjects];
  for (int i = 0; i < kObjects; ++i) {
    objects[i] = take(200);
    *objects[i] = 1;
  }
  for (int i = 0; i < kObjects; ++i) give(objects[i]);
}

static void* work(void* path) {
  void* library = dlopen(path, RTLD_NOW);
  if (library == NULL) return NULL;
  void* (*take)(size_t);
  void (*give)(void*);
  *(void**)&take = dlsym(library, "loft_malloc");
  *(void**)&give = dlsym(library, "loft_free");
  while (!first_thread_has_ended()) use_memory(take, give);
  for (int i = 0; i < 20; ++i) {
    use_memory(take, give);
    pass_time(100);
  }
  puts("worked");
  return NULL;
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  pthread_t worker;
  if (pthread_create(&worker, NULL, work, argv[1]) != 0) return 1;
  pthread_exit(NULL);
}
