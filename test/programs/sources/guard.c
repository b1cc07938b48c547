// guard HOW [short]: misuses an object of 40 bytes, and says so if nobody has stopped it. The object is the
// last of many, so that what is checked of the first ones alone does not find it.
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sigaction before;

static void handle(int number, siginfo_t* info, void* context) {
  static const char line[] = "the program's handler\n";
  if (write(1, line, sizeof line - 1) < 0) _exit(3);
  if (before.sa_flags & SA_SIGINFO) before.sa_sigaction(number, info, context);
}

static void take_signal(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, &before);
}

// An alternate stack of 8 KiB, below which nothing can be written, on a processor with AVX-512: where
// the system's own frame is shorter than there, the stack is shorter by the same.
static void take_short_stack(void) {
  const size_t frame = getauxval(51), largest = 3376;  // AT_MINSIGSTKSZ
  const size_t bytes = (8192 - (frame < largest ? largest - frame : 0)) / 16 * 16;
  char* const pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(pages, 4096, PROT_NONE);
  const stack_t stack = {.ss_sp = pages + 4096, .ss_size = bytes};
  if (sigaltstack(&stack, NULL) != 0) perror("sigaltstack");
}

__attribute__((noinline)) static char* make(void) { return malloc(40); }
__attribute__((noinline)) static void end(char* p) {
  free(p);
  __asm__ volatile("");
}
__attribute__((noinline)) static void put(volatile char* p, int at) {
  p[at] = 1;
  __asm__ volatile("");
}
__attribute__((noinline)) static int get(volatile char* p, int at) { return p[at]; }

int main(int argc, char** argv) {
  const char* const how = argc > 1 ? argv[1] : "";
  if (argc > 2) take_short_stack();
  for (int i = 0; i < 1000; ++i) end(make());
  // Each fourth sample lies at the start of its page: "before" wants one of these, all others one
  // of the rest.
  char* p = make();
  const int wanted = strcmp(how, "before") == 0;
  for (int i = 0; i < 8 && ((size_t)p % 4096 == 0) != wanted; ++i) p = make();
  memset(p, 1, 40);
  if (strcmp(how, "beyond") == 0) put(p, 48);
  if (strcmp(how, "read") == 0) get(p, 50);
  if (strcmp(how, "before") == 0) put(p, -1);
  // The byte there is random, and might be the one that put() writes: so it is changed.
  if (strcmp(how, "slack") == 0) p[41] ^= 1, end(p);
  if (strcmp(how, "after") == 0) end(p), put(p, 3);
  if (strcmp(how, "read-after") == 0) end(p), get(p, 3);
  if (strcmp(how, "twice") == 0) end(p), end(p);
  if (strcmp(how, "twice-later") == 0) {
    end(p);
    for (int i = 0; i < 100; ++i) end(make());
    end(p);
  }
  if (strcmp(how, "twice-ahead") == 0) {
    // Two are free, and one is taken, which brings the other into a second bin.
    char* const other = make();
    memset(other, 1, 40);
    end(p), end(other);
    for (int i = 0; i < 100; ++i) {
      char* const taken = make();
      if (taken == other || taken == p) end(taken == p ? other : p), i = 100;
    }
  }
  if (strcmp(how, "realloc") == 0) end(p), p = realloc(p, 50);
  if (strcmp(how, "usable") == 0) end(p), printf("%zu\n", malloc_usable_size(p));
  if (strcmp(how, "call") == 0) end(p), ((void (*)(void))p)();
  if (strcmp(how, "protected") == 0) {
    char* const page = aligned_alloc(4096, 4096);
    mprotect(page, 4096, PROT_READ);
    put(page, 3);
  }
  if (strcmp(how, "null") == 0) put(NULL, 0);
  // All values that a short text can leave in front of what was there.
  for (int i = 0; strcmp(how, "short") == 0 && i < 200000; ++i) {
    char* const text = malloc(16);
    put(text, 0), text[0] = (char)i;
    if (i % 3 == 0) text[1] = (char)(i >> 8);
    end(text);
  }
  if (strcmp(how, "sent") == 0) raise(SIGSEGV);
  if (strcmp(how, "handler") == 0) take_signal(), end(p), put(p, 3);
  if (strcmp(how, "child") == 0) {
    const pid_t child = fork();
    if (child == 0) end(p), put(p, 3);
    int status = 0;
    waitpid(child, &status, 0);
    printf("child %d\n", WTERMSIG(status));
  }
  printf("survived\n");
  return 0;
}
