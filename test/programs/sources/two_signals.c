// Has allocated at some thousand places of its code, by different ways, and waits with four threads
// for a signal that ends it.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { kWays = 12 };
static void* kept[1 << kWays];

__attribute__((noinline)) static void go(unsigned way, unsigned step) {
  if (step == kWays) {
    kept[way] = malloc(5000);
  } else if ((way >> step & 1) != 0) {
    go(way, step + 1);
  } else {
    go(way, step + 1);
    __asm__ volatile("" ::: "memory");
  }
  __asm__ volatile("" ::: "memory");
}

static void* wait_for_signals(void* nothing) {
  for (;;) pause();
  return nothing;
}

int main(void) {
  pthread_t thread;
  for (int i = 0; i < 3; ++i) pthread_create(&thread, NULL, wait_for_signals, NULL);
  for (unsigned way = 0; way < 1 << kWays; ++way) go(way, 0);
  puts("ready");
  fflush(stdout);
  wait_for_signals(NULL);
}
