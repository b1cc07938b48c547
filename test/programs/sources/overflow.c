// overflow [early|late]: a stack that overflows. The program has a handler for that, on a stack of its
// own, from its first or from its last moment on, or none.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char own_stack[64 * 1024];

static void handle(int number, siginfo_t* info, void* context) {
  static const char line[] = "the stack overflows\n";
  char here = 0;
  const int is_own = &here >= own_stack && &here < own_stack + sizeof own_stack;
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, NULL, &blocked);
  const int is_masked = sigismember(&blocked, SIGUSR1) && sigismember(&blocked, SIGSEGV);
  if (info == NULL || context == NULL || !is_own || !is_masked) _exit(3);
  if (write(1, line, sizeof line - 1) < 0) _exit(4);
  signal(number, SIG_DFL);
}

static void take_signal(void) {
  const stack_t stack = {.ss_sp = own_stack, .ss_size = sizeof own_stack};
  sigaltstack(&stack, NULL);
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaddset(&action.sa_mask, SIGUSR1);
  sigaction(SIGSEGV, &action, NULL);
}

__attribute__((noinline)) static int recurse(int depth) {
  volatile char frame[1000];
  frame[0] = (char)depth;
  return recurse(depth + 1) + frame[0];
}

int main(int argc, char** argv) {
  const char* const when = argc > 1 ? argv[1] : "";
  if (strcmp(when, "early") == 0) take_signal();
  for (int i = 0; i < 1000; ++i) free(malloc(4000));
  if (strcmp(when, "late") == 0) take_signal();
  return recurse(0);
}
