// Whether the first thread of this process has ended: the system keeps what is left of it until the
// last one ends.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int first_thread_has_ended(void) {
  char path[64];
  snprintf(path, sizeof(path), "/proc/self/task/%d/stat", getpid());
  FILE* file = fopen(path, "r");
  char state = '\0';
  if (file == NULL || fscanf(file, "%*d (%*[^)]) %c", &state) != 1) exit(124);
  fclose(file);
  return state == 'Z';
}
