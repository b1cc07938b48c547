// in_front SIZE COUNT: writes the byte in front of each of so many objects, each time in a child, which then
// frees that object, or all. Tells how many children nobody has stopped.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kMost = 1000 };

static char* objects[kMost];
static int count;

static int is_stopped(int written, int frees_all) {
  const pid_t child = fork();
  if (child == 0) {
    dup2(open("/dev/null", O_WRONLY), 2);
    ((volatile char*)objects[written])[-1] = 65;
    free(objects[written]);
    for (int i = 0; frees_all && i < count; ++i) free(i == written ? NULL : objects[i]);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return !WIFEXITED(status);
}

int main(int argc, char** argv) {
  const size_t size = argc > 2 ? (size_t)atoi(argv[1]) : 0;
  count = argc > 2 && atoi(argv[2]) <= kMost ? atoi(argv[2]) : 0;
  for (int i = 0; i < count; ++i) objects[i] = malloc(size);
  int through = 0;
  for (int i = 0; i < count; ++i) through += !is_stopped(i, i % 2);
  printf("%d\n", through);
  return 0;
}
