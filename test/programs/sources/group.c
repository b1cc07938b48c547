// group watch FOLDER, group hard [FOLDER], group lost FOLDER: what a process under loft finds out
// about its control group. FOLDER holds the group's files, made up by the test: what they say
// changes on the way.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../include/loft/loft.h"

static loft_stats_t stats(void) {
  int (*get)(loft_stats_t*) = (int (*)(loft_stats_t*))dlsym(RTLD_DEFAULT, "loft_stats");
  loft_stats_t s = {.struct_size = sizeof(s)};
  if (get == NULL || get(&s) != 0) exit(125);
  return s;
}

static void put(const char* folder, const char* name, const char* text) {
  char path[4096];
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  const int file = open(path, O_WRONLY | O_TRUNC);
  if (file < 0 || write(file, text, strlen(text)) < 0 || close(file) != 0) exit(125);
}

// Allocates and touches, so that it counts.
static void* taken(size_t bytes) {
  char* p = malloc(bytes);
  if (p != NULL) memset(p, 1, bytes);
  return p;
}

// Waits for something that the background thread finds out, or does; calls keep it awake meanwhile.
#define AWAIT(condition) \
  while (!(condition)) free(taken(2 << 20))

#define PRINT(field) printf(#field " %llu\n", (unsigned long long)stats().field)

static int watch(const char* folder) {
  void* big = taken(32 << 20);  // worth a background thread
  AWAIT(stats().group_limit_bytes != 0);
  PRINT(group_limit_bytes);
  PRINT(soft_limit_bytes);
  PRINT(hard_limit_bytes);
  PRINT(soft_limit_hits);
  // Others have used nearly all of it.
  put(folder, "memory.current", "800000000\n");
  AWAIT(stats().soft_limit_hits != 0);
  free(big);
  AWAIT(stats().dirty_bytes <= 12 << 20);
  PRINT(group_used_bytes);
  put(folder, "memory.high", "max\n");
  AWAIT(stats().group_limit_bytes == 1 << 30);
  PRINT(soft_limit_bytes);
  return 0;
}

static size_t fill(void) {
  void* first = NULL;
  size_t mebibytes = 0;
  for (;;) {
    void** p = taken(1 << 20);
    if (p == NULL) break;
    *p = first;
    first = p;
    ++mebibytes;
  }
  while (first != NULL) {
    void* next = *(void**)first;
    free(first);
    first = next;
  }
  return mebibytes;
}

static int fill_in_child(void) {
  if (fork() == 0) {
    printf("child: %zu MiB\n", fill());
    return 0;
  }
  int status = 0;
  wait(&status);
  return status;
}

static int hard(const char* folder) {
  printf("%zu MiB\n", fill());
  printf("%zu MiB\n", fill());
  if (folder == NULL) return 0;
  put(folder, "memory.max", "33554432\n");
  fflush(stdout);
  return fill_in_child();
}

// The child of a fork knows the group, of which there is no file any more.
static int lost(const char* folder) {
  char away[4096];
  snprintf(away, sizeof(away), "%s.away", folder);
  if (rename(folder, away) != 0) return 125;
  return fill_in_child();
}

int main(int argc, char** argv) {
  if (argc == 3 && strcmp(argv[1], "watch") == 0) return watch(argv[2]);
  if (argc >= 2 && strcmp(argv[1], "hard") == 0) return hard(argc == 3 ? argv[2] : NULL);
  if (argc == 3 && strcmp(argv[1], "lost") == 0) return lost(argv[2]);
  return 125;
}
