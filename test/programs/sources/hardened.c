// Programs for hardened=full. All but `resize`, `foreign` and `fortified` make no mistake.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kObjects = 100000 };
static char* objects[kObjects];
static size_t step;

static void make(size_t bytes) {
  for (int i = 0; i < kObjects; ++i) {
    objects[i] = malloc(bytes);
    memset(objects[i], 'x', bytes);
  }
}

static void* free_each(void* unused) {
  for (size_t first = 0; first < step; ++first) {
    for (size_t i = first; i < kObjects; i += step) free(objects[i]);
  }
  return unused;
}

// What one thread has made, another one frees, while the first one does nothing.
static void remote(void) {
  for (size_t bytes = 8; bytes <= 104; bytes += 16) {
    for (step = 1; step <= 3; ++step) {
      pthread_t thread;
      make(bytes);
      pthread_create(&thread, NULL, free_each, NULL);
      pthread_join(thread, NULL);
    }
  }
}

// The byte behind an object that is resized and stays where it is.
static void resize(void) {
  for (size_t bytes = 41; bytes < 48; ++bytes) {
    char* const object = malloc(bytes);
    object[bytes] = 'x';
    free(realloc(object, bytes + 1));
  }
}

// Objects of a heap of the program's own, whose places tell nothing of what was asked for.
static void sizes(void) {
  void* (*const create)(void) = dlsym(RTLD_DEFAULT, "loft_heap_create");
  void* (*const make)(void*, size_t) = dlsym(RTLD_DEFAULT, "loft_heap_malloc");
  void (*const free_sized)(void*, size_t) = dlsym(RTLD_DEFAULT, "free_sized");
  void* const heap = create();
  for (size_t bytes = 1; bytes < 100000; bytes = bytes * 2 + 1) {
    free_sized(make(heap, bytes), bytes);
    free_sized(malloc(bytes), bytes);
  }
  free_sized(NULL, 1);
}

// More long objects than the system allows mappings for. None of their pages is touched.
static void mappings(void) {
  enum { kMany = 36000 };
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < kMany; ++i) {
      objects[i] = malloc(256 << 10);
      if (objects[i] == NULL) exit(1);
    }
    for (int i = 0; i < kMany; ++i) free(objects[i]);
  }
}

// Objects that fit no class with their tags, until there is no memory (hard_limit).
static void refused(void) {
  int count = 0;
  while (count < kObjects && (objects[count] = malloc(32765)) != NULL) ++count;
  if (count == kObjects) exit(1);
  while (count != 0) free(objects[--count]);
}

// Addresses that are not of the heap (misuse=continue).
static void foreign(void) {
  static char bytes[64];
  char* volatile p = bytes + 16;
  free(p);
  if (malloc_usable_size(p) != 0 || realloc(p, 100) != NULL) exit(1);
}

// What a fortified program calls where the compiler knows of five bytes of room.
static void fortified(void) {
  static char room[16];
  void* (*const copy)(void*, const void*, size_t, size_t) = dlsym(RTLD_DEFAULT, "__memcpy_chk");
  copy(room, "0123456789", 5, 5);
  copy(room, "0123456789", 6, 5);
}

int main(int argc, char** argv) {
  const char* const what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "remote") == 0) remote();
  if (strcmp(what, "resize") == 0) resize();
  if (strcmp(what, "sizes") == 0) sizes();
  if (strcmp(what, "fortified") == 0) fortified();
  if (strcmp(what, "mappings") == 0) mappings();
  if (strcmp(what, "refused") == 0) refused();
  if (strcmp(what, "foreign") == 0) foreign();
  puts("done");
  return 0;
}
