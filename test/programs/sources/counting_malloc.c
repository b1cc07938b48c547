// A library to preload before loft, as tracers of malloc are: it counts what comes through malloc
// and free, puts a header before each object, and passes the calls on.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kHeader = 32, kTag = 0x7ac3 };
static long made, freed;

static void* start_of(void* object) {
  long* const start = (long*)((char*)object - kHeader);
  if (*start != kTag) __builtin_trap();
  return start;
}

void* malloc(size_t size) {
  static void* (*next)(size_t);
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, "malloc");
  long* const start = next(size + kHeader);
  if (start == NULL) return NULL;
  *start = kTag;
  made++;
  return (char*)start + kHeader;
}

void free(void* object) {
  static void (*next)(void*);
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, "free");
  if (object == NULL) return;
  freed++;
  next(start_of(object));
}

void* calloc(size_t count, size_t size) {
  void* const object = malloc(count * size);
  return object == NULL ? NULL : memset(object, 0, count * size);
}

void* realloc(void* object, size_t size) {
  static void* (*next)(void*, size_t);
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, "realloc");
  if (object == NULL) return malloc(size);
  char* const start = next(start_of(object), size + kHeader);
  return start == NULL ? NULL : start + kHeader;
}

__attribute__((destructor)) static void tell(void) {
  fprintf(stderr, "%s\n", made >= 3000 && freed >= 3000 ? "counted" : "not counted");
}
