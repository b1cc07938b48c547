// Streams of small objects, each of them more than a cache holds: thousands of refills.
#include <stdlib.h>

int main(void) {
  static char* held[20000];
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 20000; ++i) {
      if ((held[i] = malloc(64)) == NULL) return 1;
      *held[i] = (char)i;
    }
    for (int i = 0; i < 20000; ++i) {
      if (*held[i] != (char)i) return 2;
      free(held[i]);
    }
  }
  return 0;
}
