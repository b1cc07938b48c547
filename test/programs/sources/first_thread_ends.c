// first_thread_ends [fork]: the first thread, of this process or of a child, ends by itself while
// a thread of loft's own runs; another one goes on and ends, and with it the process.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "first_thread.h"
#include "virtual_time.h"

static int threads(void) {
  DIR* tasks = opendir("/proc/self/task");
  int count = -2;
  while (readdir(tasks) != NULL) ++count;
  closedir(tasks);
  return count;
}

static void use_memory(void) {
  enum { kObjects = 100000 };
  static char* objects[kObjects];
  for (int i = 0; i < kObjects; ++i) {
    objects[i] = malloc(200);
    *objects[i] = 1;
  }
  for (int i = 0; i < kObjects; ++i) free(objects[i]);
}

static void* work(void* unused) {
  while (!first_thread_has_ended()) use_memory();
  for (int i = 0; i < 20; ++i) {
    use_memory();
    pass_time(100);
  }
  puts("worked");
  return unused;
}

static void say_goodbye(void) { puts("ended"); }

int main(int argc, char** argv) {
  (void)argv;
  if (argc > 1) {
    const pid_t child = fork();
    if (child != 0) {
      int status = 1;
      waitpid(child, &status, 0);
      return status != 0;
    }
  }
  atexit(say_goodbye);
  if (argc > 1) {  // the child of a fork has no thread of loft's until it asks
    int (*start)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "loft_background_start");
    if (start == NULL || start() != 0) return 123;
  }
  if (threads() != 2) return 122;
  use_memory();
  pthread_t worker;
  pthread_create(&worker, NULL, work, NULL);
  pthread_exit(NULL);
}
