/* A program that is linked with loft, on systems for which it is only compiled. */
#include <loft/loft.h>
#include <stdlib.h>

int main(void) {
  void* const object = malloc(100);
  void* const other = loft_malloc(100);
  loft_free(other);
  free(object);
  return object != NULL && other != NULL ? 0 : 1;
}
