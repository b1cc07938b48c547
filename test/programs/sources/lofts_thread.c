// lofts_thread WHAT: which threads this process has that it has not started, when a thread of its
// own has grown the heap and freed it, from one processor and before all others if it may. `child`
// looks into the child of a fork, `asked` into one that asks for the thread.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef TLS_KIB
#define TLS_KIB 1
#endif
static __thread char local[TLS_KIB * 1024];
static pid_t mine;
static int created;

// A tool's: it counts, allocates under its lock, and calls libc's.
int pthread_create(pthread_t* thread, const pthread_attr_t* how, void* (*run)(void*), void* with) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  int (*next)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) =
      (int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*))dlsym(RTLD_NEXT,
                                                                                 "pthread_create");
  pthread_mutex_lock(&lock);
  ++created;
  free(calloc(1, 5 << 20));
  const int error = next(thread, how, run, with);
  pthread_mutex_unlock(&lock);
  return error;
}

static void* grow(void* unused) {
  mine = (pid_t)syscall(SYS_gettid);
  local[0] = 1;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  sched_setaffinity(0, sizeof(one), &one);
  const struct sched_param first = {.sched_priority = 10};
  sched_setscheduler(0, SCHED_FIFO, &first);
  enum { kObjects = 3000 };
  char** objects = calloc(kObjects, sizeof(char*));
  for (int i = 0; i < kObjects; ++i) objects[i] = memset(malloc(30000), 1, 30000);
  for (int i = 0; i < kObjects; ++i) free(objects[i]);
  free(objects);
  return unused;
}

static void tell_of(pid_t thread) {
  char path[64];
  char line[256];
  char name[32] = "";
  char blocked[32] = "";
  snprintf(path, sizeof(path), "/proc/self/task/%d/status", thread);
  FILE* status = fopen(path, "r");
  while (status != NULL && fgets(line, sizeof(line), status) != NULL) {
    sscanf(line, "Name: %31s", name);
    sscanf(line, "SigBlk: %31s", blocked);
  }
  if (status != NULL) fclose(status);
  cpu_set_t its;
  cpu_set_t ours;
  sched_getaffinity(thread, sizeof(its), &its);
  sched_getaffinity(getpid(), sizeof(ours), &ours);
  // All but SIGKILL, SIGSTOP and libc's own two.
  const int all = (strtoull(blocked, NULL, 16) | 0x180040100) == ~0ull;
  printf("%s%s%s%s\n", name, sched_getscheduler(thread) == SCHED_OTHER ? "" : ", not SCHED_OTHER",
         CPU_EQUAL(&its, &ours) ? "" : ", other processors", all ? "" : ", takes signals");
}

static void tell(void) {
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == NULL) exit(124);
  for (struct dirent* entry; (entry = readdir(tasks)) != NULL;) {
    const pid_t thread = atoi(entry->d_name);
    if (thread > 0 && thread != getpid() && thread != mine) tell_of(thread);
  }
  closedir(tasks);
}

static void work(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, grow, NULL) != 0) exit(121);
  pthread_join(thread, NULL);
}

int main(int argc, char** argv) {
  const char* const what = argc == 2 ? argv[1] : "";
  work();
  if (strcmp(what, "") == 0) {
    tell();
    printf("%d created\n", created);
    return 0;
  }
  fflush(stdout);
  if (fork() == 0) {
    mine = 0;
    work();
    int (*start)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "loft_background_start");
    if (strcmp(what, "asked") == 0 && (start == NULL || start() != 0 || start() != 0)) exit(123);
    tell();
    puts("child");
    exit(0);
  }
  int status = 0;
  wait(&status);
  return status != 0;
}
