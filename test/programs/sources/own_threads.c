// own_threads WHAT: what a process finds that has threads of its own at times only, of threads that
// it has not started.
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "first_thread.h"
#include "virtual_time.h"

enum { kMiB = 1 << 20 };

static int threads(void) {
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == NULL) exit(124);
  int count = -2;
  while (readdir(tasks) != NULL) ++count;
  closedir(tasks);
  return count;
}

// 50 MiB: worth a thread that gives memory back.
static void use_memory(void) {
  enum { kObjects = 30000, kLarge = 3 };
  char** objects = malloc((kObjects + kLarge) * sizeof(char*));
  if (objects == NULL) exit(123);
  for (int i = 0; i < kObjects + kLarge; ++i) {
    const size_t bytes = i < kObjects ? 16 + (size_t)i % 1200 : 10 * (size_t)kMiB;
    objects[i] = malloc(bytes);
    if (objects[i] == NULL) exit(123);
    memset(objects[i], 1, bytes);
  }
  for (int i = 0; i < kObjects + kLarge; ++i) free(objects[i]);
  free(objects);
}

// Uses memory for longer than memory stays, and says how many threads there were at most.
static int most_threads(void) {
  int most = 0;
  for (int i = 0; i < 10; ++i) {
    use_memory();
    const int now = threads();
    if (now > most) most = now;
    pass_time(100);
  }
  return most;
}

static void* work(void* unused) {
  for (int i = 0; i < 2; ++i) use_memory();
  return unused;
}

static void* work_and_end(void* unused) {
  while (!first_thread_has_ended()) use_memory();
  for (int i = 0; i < 20; ++i) {
    use_memory();
    pass_time(100);
  }
  if (write(1, "worked\n", 7) != 7) _exit(122);
  return unused;
}

static pthread_t start(void* (*function)(void*)) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, function, NULL) != 0) exit(121);
  return thread;
}

static void in_child(void) {
  fflush(stdout);
  if (fork() == 0) {
    printf("child: most %d\n", most_threads());
    fflush(stdout);
    _exit(0);
  }
  int status = 0;
  wait(&status);
  printf("child: %d\n", status);
}

static const char* done(int result) { return result == 0 ? "done" : "failed"; }

// What the system allows to a process of one thread alone.
static void alone(void) {
  use_memory();
  printf("user namespace %s\n", done(unshare(CLONE_NEWUSER)));
  const int mounts = open("/proc/self/ns/user", O_RDONLY);
  printf("own user namespace %s\n", setns(mounts, CLONE_NEWUSER) != 0 ? "refused" : "entered");
}

static void another_mount_namespace(void) {
  const int before = open("/proc/self/ns/mnt", O_RDONLY);
  if (before < 0 || unshare(CLONE_NEWNS) != 0) exit(77);
  use_memory();
  printf("setns %s\n", done(setns(before, CLONE_NEWNS)));
}

// Every thread of the process has them.
static void no_new_privileges(void) {
  use_memory();
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) exit(77);
  use_memory();
  DIR* tasks = opendir("/proc/self/task");
  int without = 0;
  for (struct dirent* task; (task = readdir(tasks)) != NULL;) {
    char path[400];
    char text[4096];
    snprintf(path, sizeof(path), "/proc/self/task/%s/status", task->d_name);
    FILE* file = task->d_name[0] == '.' ? NULL : fopen(path, "r");
    if (file == NULL) continue;
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    if (strstr(text, "NoNewPrivs:\t1") == NULL) ++without;
    fclose(file);
  }
  closedir(tasks);
  printf("threads without %d\n", without);
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "one thread") == 0) printf("most %d\n", most_threads());
  if (strcmp(what, "alone") == 0) alone();
  if (strcmp(what, "setns") == 0) another_mount_namespace();
  if (strcmp(what, "no new privileges") == 0) no_new_privileges();
  if (strcmp(what, "fork") == 0) {
    use_memory();
    in_child();
    printf("most %d\n", most_threads());
  }
  if (strcmp(what, "ended") == 0) {
    for (int round = 0; round < 3; ++round) {
      pthread_t all[4];
      for (int i = 0; i < 4; ++i) all[i] = start(work);
      for (int i = 0; i < 4; ++i) pthread_join(all[i], NULL);
      puts(threads() == 1 ? "alone again" : "not alone");
    }
    printf("most %d\n", most_threads());
    in_child();
  }
  if (strcmp(what, "forced") == 0) {
    use_memory();
    puts(threads() == 2 ? "there" : "not there");
  }
  if (strcmp(what, "exit") == 0 || strcmp(what, "raw exit") == 0) {
    use_memory();
    start(work_and_end);
    if (what[0] == 'r') syscall(SYS_exit, 0);
    pthread_exit(NULL);
  }
  return 0;
}
