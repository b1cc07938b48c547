// Loads the plugin that the first argument names, with a scope of its own before the program's
// (RTLD_DEEPBIND), and lets objects cross: what either side made, the other resizes and frees. The
// second argument is how many threads do so at once, each beginning with the load. The third one:
//   dlmopen loads it by dlmopen, into the program's own namespace
//   handle  takes functions of libc from handles, besides
//   fork    does all of it in a child first, and in another one again
//   whose   does nothing of it, but lets the plugin load something, and says which library the
//           malloc is in that libc's handle has
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char* path;
static int by_dlmopen;
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
  void* handle = by_dlmopen ? dlmopen(LM_ID_BASE, file, mode) : dlopen(file, mode);
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

static void cross_in_threads(int threads) {
  pthread_t id[64];
  pthread_barrier_init(&all, NULL, (unsigned)threads);
  for (int i = 0; i < threads; ++i) pthread_create(&id[i], NULL, cross, NULL);
  for (int i = 0; i < threads; ++i) pthread_join(id[i], NULL);
}

static void cross_in_child(int threads) {
  const pid_t child = fork();
  if (child == 0) {
    cross_in_threads(threads);
    exit(0);
  }
  int status = -1;
  if (waitpid(child, &status, 0) != child || status != 0) {
    printf("the child ended with %d\n", status);
    exit(1);
  }
}

static int say_whose(void) {
  void* plugin = loaded(path, RTLD_NOW | RTLD_DEEPBIND);
  int (*load)(void) = (int (*)(void))found(plugin, "plugin_load");
  Dl_info info;
  if (!load() || !dladdr(found(loaded("libc.so.6", RTLD_NOW), "malloc"), &info)) return 1;
  // What libc allocates itself goes on as it was.
  char* line = NULL;
  size_t room = 0;
  FILE* self = fopen("/proc/self/maps", "r");
  while (getline(&line, &room, self) > 0) line = realloc(line, room += 100);
  fclose(self);
  free(line);
  puts(strrchr(info.dli_fname, '/') + 1);
  return 0;
}

int main(int argc, char** argv) {
  path = argv[1];
  const int threads = atoi(argv[2]);
  const char* what = argc > 3 ? argv[3] : "";
  by_dlmopen = strcmp(what, "dlmopen") == 0;
  if (strcmp(what, "whose") == 0) return say_whose();
  if (strcmp(what, "fork") == 0) cross_in_child(threads);
  cross_in_threads(threads);
  if (strcmp(what, "fork") == 0) cross_in_child(threads);
  char* (*begun)(void) = (char* (*)(void))found(loaded(path, RTLD_NOW), "plugin_begun");
  if (strcmp(begun(), "begun") != 0) return 1;
  free(begun());
  if (strcmp(what, "handle") == 0) take_from_handles();
  if (dlopen("no such library", RTLD_NOW) != NULL || dlerror() == NULL) return 1;
  puts("crossed");
  return 0;
}
