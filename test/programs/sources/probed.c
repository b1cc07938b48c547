// One object, for a debugger that stops where samples begin and end.
#include <stdlib.h>

int main(void) {
  char* const p = malloc(100);
  if (p == NULL) return 1;
  free(p);
  return 0;
}
