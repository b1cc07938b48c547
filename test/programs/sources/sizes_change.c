// A store whose objects become of another size: ten times it fills up to 64 MiB with objects of the
// next size, and then frees three quarters of all that it has, picked at random. Prints how much
// was resident at most when it was full, in KiB.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "resident.h"

enum { kFull = 64 << 20, kMost = 1 << 20, kSizes = 10 };

static const unsigned sizes[kSizes] = {100, 180, 300, 520, 900, 1500, 4000, 10000, 70000, 200};

struct Item {
  char* object;
  unsigned size;
};

static struct Item items[kMost];

static uint32_t draw(uint32_t below) {
  static uint64_t state = 42;
  state = state * 6364136223846793005 + 1442695040888963407;
  return (uint32_t)((state >> 33) % below);
}

int main(void) {
  memset(items, 1, sizeof items);
  const long before = resident_kib();
  long most = 0;
  uint32_t count = 0;
  size_t live = 0;
  for (int step = 0; step < kSizes; ++step) {
    for (; live < kFull && count < kMost; ++count) {
      items[count] = (struct Item){malloc(sizes[step]), sizes[step]};
      if (items[count].object == NULL) return 120;
      memset(items[count].object, 1, sizes[step]);
      live += sizes[step];
    }
    const long now = resident_kib() - before;
    if (now > most) most = now;
    while (live > kFull / 4) {
      const uint32_t at = draw(count);
      free(items[at].object);
      live -= items[at].size;
      items[at] = items[--count];
    }
  }
  printf("%ld\n", most);
  return 0;
}
