// Loads the plugin that the first argument names, with a scope of its own before the program's
// (RTLD_DEEPBIND), and lets objects cross: what either side made, the other resizes and frees. The
// second argument is how many threads do so at once, each beginning with the load. With "handle"
// as the third one, functions of libc are taken from handles besides.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char* path;
static pthread_barrier_t all;

static void* found(void* handle, const char* name) {
  void* symbol = dlsym(handle, name);
  if (symbol == NULL) {
    printf("%s: %s\n", name, dlerror());
    exit(1);
  }
  return symbol;
}

static void* loaded(const char* file, int mode) {
  void* handle = dlopen(file, mode);
  if (handle == NULL) {
    printf("%s\n", dlerror());
    exit(1);
  }
  return handle;
}

static void* cross(void* unused) {
  pthread_barrier_wait(&all);
  void* plugin = loaded(path, RTLD_NOW | RTLD_DEEPBIND);
  void* (*give)(int) = (void* (*)(int))found(plugin, "plugin_give");
  void (*take)(void*) = (void (*)(void*))found(plugin, "plugin_take");
  void* (*resize)(void*, size_t) = (void* (*)(void*, size_t))found(plugin, "plugin_resize");
  size_t (*size)(void*) = (size_t (*)(void*))found(plugin, "plugin_size");
  for (int round = 0; round < 100; ++round) {
    void* object;
    for (int way = 0; (object = give(way)) != NULL; ++way) {
      if (malloc_usable_size(object) != size(object) || size(object) == 0) {
        printf("way %d: %zu bytes here, %zu there\n", way, malloc_usable_size(object),
               size(object));
        exit(1);
      }
      free(way % 2 == 0 ? object : realloc(object, 3000));
    }
    take(malloc(64));
    take(calloc(3, 3000));
    take(resize(strdup("from the program"), 70000));
  }
  return unused;
}

// As a binding of another language does.
static void take_from_handles(void) {
  static const char* const kLibraries[] = {"libc.so.6", "libm.so.6"};
  for (size_t i = 0; i < 2; ++i) {
    void* handle = loaded(kLibraries[i], RTLD_LAZY);
    void (*its_free)(void*) = (void (*)(void*))found(handle, "free");
    void* (*its_malloc)(size_t) = (void* (*)(size_t))found(handle, "malloc");
    its_free(strdup("text"));
    free(its_malloc(100));
  }
}

int main(int argc, char** argv) {
  path = argv[1];
  const int threads = atoi(argv[2]);
  pthread_t id[64];
  pthread_barrier_init(&all, NULL, (unsigned)threads);
  for (int i = 0; i < threads; ++i) pthread_create(&id[i], NULL, cross, NULL);
  for (int i = 0; i < threads; ++i) pthread_join(id[i], NULL);
  char* (*begun)(void) = (char* (*)(void))found(loaded(path, RTLD_NOW), "plugin_begun");
  if (strcmp(begun(), "begun") != 0) return 1;
  free(begun());
  if (argc > 3 && strcmp(argv[3], "handle") == 0) take_from_handles();
  if (dlopen("no such library", RTLD_NOW) != NULL || dlerror() == NULL) return 1;
  puts("crossed");
  return 0;
}
