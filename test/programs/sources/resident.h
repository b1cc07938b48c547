// How much of the process is resident, in KiB, as the system counts.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static long resident_kib(void) {
  long size = 0;
  long resident = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%ld %ld", &size, &resident) != 2) exit(121);
  fclose(file);
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}
