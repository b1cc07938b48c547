// rounds SIZE KEPT: fills 200 MiB with objects of SIZE bytes and frees them, ten times. Where KEPT
// is not 0, one object of so many stays from the first round on. Prints the page faults of the
// first round and of all others, and how much is resident beyond what was before, and in use, in
// KiB, when the first round has freed its last object. It stays on one processor: with owner=cpu,
// each that it came to would fill memory of its own.
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "resident.h"

enum { kRounds = 10, kBytes = 200 << 20 };

static long faults(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

static void stay_here(void) {
  cpu_set_t here;
  CPU_ZERO(&here);
  CPU_SET(sched_getcpu(), &here);
  if (sched_setaffinity(0, sizeof here, &here) != 0) exit(122);
}

int main(int argc, char** argv) {
  if (argc != 3) return 120;
  stay_here();
  const size_t size = strtoul(argv[1], NULL, 10);
  const size_t kept = strtoul(argv[2], NULL, 10);
  const size_t count = kBytes / size;
  char** objects = calloc(count, sizeof(char*));
  memset(objects, 0, count * sizeof(char*));
  const long before = resident_kib();
  const long start = faults();
  long first = 0;
  long resident = 0;
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < count; ++i) {
      if (objects[i] != NULL) continue;
      objects[i] = malloc(size);
      memset(objects[i], 1, size);
    }
    for (size_t i = 0; i < count; ++i) {
      if (kept != 0 && i % kept == 0) continue;
      free(objects[i]);
      objects[i] = NULL;
    }
    if (round != 0) continue;
    resident = resident_kib() - before;
    first = faults() - start;
  }
  const size_t in_use = kept == 0 ? 0 : (count + kept - 1) / kept * size;
  printf("%ld %ld %ld %zu\n", first, faults() - start - first, resident, in_use >> 10);
  return 0;
}
