// namespaces small|usual|empty FOLDER|sharing: threads that compute beside threads that sleep,
// where /proc does not show this process: it is the outer process namespace's (small: on stacks
// that lie side by side), or is not there. Or beside children that share the memory.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kMiB = 1 << 20, kThreads = 16, kStack = 64 << 10, kRounds = 60, kObjects = 3000 };

static volatile int stop;

static void* sleeper(void* unused) {
  while (!stop) usleep(200000);
  return unused;
}

// Pairs that undo each other, and now and then many objects: whoever flushes this thread's bins
// meanwhile gives an object to two.
static void* busy(void* number) {
  long bad = 0;
  const long mine = (long)number;
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < 100000; ++i) {
      volatile long* p = malloc(48);
      p[0] = mine;
      p[3] = -mine;
      for (int k = 0; k < 4; ++k) bad += p[0] != mine || p[3] != -mine;
      free((void*)p);
    }
    static __thread long* many[kObjects];
    for (int i = 0; i < kObjects; ++i) {
      many[i] = malloc(16 + (size_t)i % 500);
      many[i][0] = mine + i;
    }
    for (int i = 0; i < kObjects; ++i) {
      bad += many[i][0] != mine + i;
      free(many[i]);
    }
  }
  return (void*)bad;
}

static long work(int small) {
  // Worth being looked after.
  char* large = malloc(20 * kMiB);
  memset(large, 1, 20 * kMiB);
  static char* kept[kObjects];
  for (int i = 0; i < kObjects; ++i) {
    kept[i] = malloc(9000);
    kept[i][0] = 1;
  }
  char* stacks = mmap(NULL, (size_t)kThreads * kStack, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  pthread_t threads[kThreads];
  for (long i = 0; i < kThreads; ++i) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (small) pthread_attr_setstack(&attributes, stacks + i * kStack, kStack);
    if (pthread_create(&threads[i], &attributes, i % 2 != 0 ? busy : sleeper, (void*)(i + 1))) {
      exit(120);
    }
  }
  long bad = 0;
  for (int i = 1; i < kThreads; i += 2) {
    void* result = NULL;
    pthread_join(threads[i], &result);
    bad += (long)result;
  }
  stop = 1;
  for (int i = 0; i < kThreads; i += 2) pthread_join(threads[i], NULL);
  for (int i = 0; i < kObjects; ++i) free(kept[i]);
  free(large);
  return bad;
}

static int finish(long bad) {
  printf("bad %ld\n", bad);
  fflush(stdout);
  return bad != 0;
}

static int wait_for(pid_t child) {
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return 119;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

// A process namespace within one whose /proc it is that is mounted.
static int inside(const char* program, const char* how) {
  if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) return 77;
  const pid_t child = fork();
  if (child != 0) return wait_for(child);
  if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) _exit(77);
  if (mount("proc", "/proc", "proc", 0, NULL) != 0 || unshare(CLONE_NEWPID) != 0) _exit(77);
  const pid_t grandchild = fork();
  if (grandchild != 0) _exit(wait_for(grandchild));
  execl(program, program, how, "inside", (char*)NULL);
  _exit(118);
}

static int sharing_child(void* unused) {
  while (!stop) usleep(1000);
  return unused != NULL;
}

static int computing_child(void* unused) {
  while (!stop) continue;
  return unused != NULL;
}

// It has this thread's own memory, caches included, while this thread waits.
static int allocating_child(void* program) {
  enum { kMany = 2000 };
  static char* objects[kMany];
  for (int i = 0; i < kMany; ++i) {
    objects[i] = malloc(100 + (size_t)i * 10);
    memset(objects[i], 1, 100);
  }
  for (int i = 0; i < kMany; ++i) free(objects[i]);
  char* text = malloc(200000);
  strcpy(text, program);
  execl(text, text, "nothing", (char*)NULL);
  _exit(117);
}

static char child_stacks[3][256 << 10] __attribute__((aligned(64)));

static long share(char* program) {
  const int flags = CLONE_VM | SIGCHLD;
  const pid_t one = clone(sharing_child, child_stacks[1], flags, NULL);
  const pid_t two = clone(computing_child, child_stacks[2], flags, NULL);
  const long bad = work(0);
  stop = 1;
  if (wait_for(one) != 0 || wait_for(two) != 0) return -1;
  for (int i = 0; i < 50; ++i) {
    const pid_t child =
        clone(allocating_child, child_stacks[1], CLONE_VM | CLONE_VFORK | SIGCHLD, program);
    if (wait_for(child) != 0) return -2;
    for (int k = 0; k < 500; ++k) free(malloc((size_t)k * 300));
  }
  stop = 0;
  return bad + work(0);
}

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "";
  if (strcmp(how, "nothing") == 0) return 0;
  if (strcmp(how, "small") == 0 || strcmp(how, "usual") == 0) {
    return argc > 2 ? finish(work(how[0] == 's')) : inside("/proc/self/exe", how);
  }
  if (strcmp(how, "empty") == 0) {
    if (chroot(argv[2]) != 0 || chdir("/") != 0) return 77;
    return finish(work(1));
  }
  if (strcmp(how, "sharing") == 0) return finish(share(argv[0]));
  return 125;
}
