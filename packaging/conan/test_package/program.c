#include <loft/loft.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
  char* ours = loft_malloc(100);
  char* p = malloc(100);
  if (ours == NULL || p == NULL || loft_object_start(ours + 50) != ours) return 1;
  printf("loft " LOFT_VERSION_STRING ", malloc is %s\n",
         loft_object_start(p + 50) == p ? "loft's" : "libc's");
  free(p);
  loft_free(ours);
  return 0;
}
