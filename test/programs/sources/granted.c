// Which powers of two malloc gives, from a GiB on, and what stays resident of the answers in KiB.
#include <stdio.h>
#include <stdlib.h>

#include "resident.h"

int main(void) {
  free(malloc(100));
  const long before = resident_kib();
  for (int power = 30; power <= 44; ++power) {
    void* volatile object = malloc((size_t)1 << power);
    printf("2^%d %s\n", power, object != NULL ? "given" : "refused");
    free(object);
  }
  fprintf(stderr, "%ld\n", resident_kib() - before);
  return 0;
}
