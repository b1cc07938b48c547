// Holds more and more memory until it is refused, twice, and then waits for signals if it is to.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void on_signal(int number) {
  (void)number;
  if (write(1, "mine\n", 5) != 5) _exit(9);
}

static void* kept[1 << 16];

// Returns how many objects of that size there was room for.
static int hold(size_t size) {
  int count = 0;
  while (count < 1 << 16) {
    void* const p = malloc(size);
    if (p == NULL) break;
    *(char*)p = 1;
    kept[count++] = p;
  }
  return count;
}

int main(int count, char** words) {
  if (count > 1 && strcmp(words[1], "handles") == 0) signal(SIGUSR2, on_signal);
  if (count > 1 && strcmp(words[1], "fills") == 0) {
    for (int round = 0; round < 2; round++) {
      const int held = hold(200000);
      if (errno != ENOMEM || held == 0 || held == 1 << 16) return 2;
      for (int i = 0; i < held; i++) free(kept[i]);
    }
    puts("refused");
    return 0;
  }
  if (hold(1) == 0) return 3;
  puts("ready");
  fflush(stdout);
  char word[8];
  while (fgets(word, sizeof(word), stdin) != NULL) {
    if (raise(SIGUSR2) != 0) return 4;
    puts("raised");
    fflush(stdout);
  }
  return 0;
}
