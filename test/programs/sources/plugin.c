// A plugin that gives and takes objects. As a library of its own; BEGUN is what its constructor
// allocates.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char* begun;

__attribute__((constructor)) static void begin(void) { begun = strdup("begun"); }

char* plugin_begun(void) { return begun; }

// An object from each function that makes one.
void* plugin_give(int way) {
  char* text = NULL;
  void* object = NULL;
  switch (way) {
    case 0:
      return malloc(100);
    case 1:
      return calloc(10, 10);
    case 2:
      return realloc(malloc(10), 100000);
    case 3:
      return strdup("duplicate");
    case 4:
      return asprintf(&text, "%d and %s", way, "text") < 0 ? NULL : text;
    case 5:
      return aligned_alloc(64, 128);
    case 6:
      return posix_memalign(&object, 256, 100) == 0 ? object : NULL;
    case 7:
      return memalign(32, 100);
    case 8:
      return valloc(5000);
    case 9:
      return reallocarray(NULL, 10, 20);
    default:
      return NULL;
  }
}

size_t plugin_size(void* object) { return malloc_usable_size(object); }
void* plugin_resize(void* object, size_t size) { return realloc(object, size); }
void plugin_take(void* object) { free(object); }

// Loads something itself.
int plugin_load(void) { return dlopen("libm.so.6", RTLD_NOW) != NULL; }
