// A program that opens a plugin late, closes it while its objects are in use and a thread has
// called it, and opens it again.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void* plugin;
static void* call(const char* name) {
  void* function = dlsym(plugin, name);
  if (function == NULL) puts(dlerror()), exit(1);
  return function;
}
static void open_plugin(const char* path) {
  plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (plugin == NULL) puts(dlerror()), exit(1);
}

static pthread_barrier_t used, closed;
static void* thread_ends_after_the_plugin(void* size) {
  char* p = ((void* (*)(size_t))call("plugin_get"))((size_t)size);
  pthread_barrier_wait(&used);
  pthread_barrier_wait(&closed);
  memset(p, 1, (size_t)size);
  return p;
}

int main(int count, char** arguments) {
  if (count != 2) return 1;
  pthread_t thread;
  pthread_barrier_init(&used, NULL, 2);
  pthread_barrier_init(&closed, NULL, 2);
  for (int i = 0; i < 3; ++i) {
    void* p;
    open_plugin(arguments[1]);
    if (!((int (*)(void))call("plugin_is_apart"))()) return puts("malloc is the plugin's"), 1;
    pthread_create(&thread, NULL, thread_ends_after_the_plugin, (void*)5000);
    pthread_barrier_wait(&used);
    dlclose(plugin);
    pthread_barrier_wait(&closed);
    pthread_join(thread, &p);
    open_plugin(arguments[1]);
    const int failed = ((int (*)(void))call("plugin_work"))();
    if (failed) return printf("step %d\n", failed), 1;
    ((void (*)(void*))call("plugin_put"))(p);
    dlclose(plugin);
  }
  return puts("ok") < 0;
}
