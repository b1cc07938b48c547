// Which powers of two malloc gives, from a GiB on, and what stays resident of the answers in KiB.
#include <stdio.h>
#include <stdlib.h>

static long resident(void) {
  long all = 0;
  long pages = 0;
  FILE* const file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%ld %ld", &all, &pages) != 2) return -1;
  fclose(file);
  return pages * 4;
}

int main(void) {
  free(malloc(100));
  const long before = resident();
  for (int power = 30; power <= 44; ++power) {
    void* volatile object = malloc((size_t)1 << power);
    printf("2^%d %s\n", power, object != NULL ? "given" : "refused");
    free(object);
  }
  fprintf(stderr, "%ld\n", resident() - before);
  return 0;
}
