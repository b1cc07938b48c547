// reloaded LIBRARY: opens the library late, beside the C library's own malloc, uses it from
// threads, and closes it while some of them still hold caches; many times over.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kRounds = 40, kThreads = 3 };

static void* (*take)(size_t);
static void (*give)(void*);
static pthread_barrier_t used;
static pthread_barrier_t closed;

static void exercise(void) {
  void* objects[200];
  for (size_t i = 0; i < 200; i++) {
    objects[i] = take(i * i + 1);
    if (objects[i] == NULL) abort();
    memset(objects[i], 1, i * i + 1);
    char* other = malloc(i + 1);
    other[0] = 1;
    free(other);
  }
  for (size_t i = 0; i < 200; i++) give(objects[i]);
}

// Ends after the library was closed: whatever it registered for a thread's end must still be there.
static void* run(void* unused) {
  exercise();
  pthread_barrier_wait(&used);
  pthread_barrier_wait(&closed);
  return unused;
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  pthread_barrier_init(&used, NULL, kThreads + 1);
  pthread_barrier_init(&closed, NULL, kThreads + 1);
  for (int round = 0; round < kRounds; round++) {
    void* library = dlopen(argv[1], round % 2 == 0 ? RTLD_NOW : RTLD_LAZY | RTLD_LOCAL);
    if (library == NULL) {
      puts(dlerror());
      return 1;
    }
    *(void**)&take = dlsym(library, "loft_malloc");
    *(void**)&give = dlsym(library, "loft_free");
    if (take == NULL || give == NULL) return 1;
    exercise();
    pthread_t threads[kThreads];
    for (int i = 0; i < kThreads; i++) {
      if (pthread_create(&threads[i], NULL, run, NULL) != 0) return 1;
    }
    pthread_barrier_wait(&used);
    if (dlclose(library) != 0) return 1;
    pthread_barrier_wait(&closed);
    for (int i = 0; i < kThreads; i++) pthread_join(threads[i], NULL);
  }
  puts("opened and closed");
  return 0;
}
