// first_call WHICH: makes one call the very first of the process, before any constructor, and
// prints that it came back.
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void* first = NULL;

static void call(int argc, char** argv, char** environment) {
  (void)environment;
  if (argc < 2) abort();
  const char* which = argv[1];
  if (strcmp(which, "free") == 0) {
    free(NULL);
  } else if (strcmp(which, "usable") == 0) {
    if (malloc_usable_size(NULL) != 0) abort();
  } else if (strcmp(which, "malloc") == 0) {
    first = malloc(100);
  } else if (strcmp(which, "large") == 0) {
    first = malloc(3000000);
  } else if (strcmp(which, "calloc") == 0) {
    first = calloc(10, 10);
  } else if (strcmp(which, "realloc") == 0) {
    first = realloc(NULL, 100);
  } else if (strcmp(which, "aligned") == 0) {
    if (posix_memalign(&first, 4096, 100) != 0) abort();
  } else if (strcmp(which, "strdup") == 0) {
    first = strdup("a word");
  } else if (strcmp(which, "trim") == 0) {
    malloc_trim(0);
  } else {
    abort();
  }
}

__attribute__((section(".preinit_array"), used)) static void (*const preinit)(int, char**,
                                                                              char**) = call;

int main(void) {
  if (first != NULL) memset(first, 1, 7);
  free(first);
  char* later = malloc(1000);
  if (later == NULL) return 1;
  memset(later, 2, 1000);
  free(later);
  puts("came back");
  return 0;
}
