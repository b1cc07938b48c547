// small_objects: objects of sixteen bytes in a heap of the program's own, until there is no memory.
// Prints how many bytes they are; and a large object is to be had again once they are gone.
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

int main(void) {
  void* (*create)(void);
  void* (*take)(void*, size_t);
  void (*destroy)(void*);
  void* (*take_large)(size_t);
  *(void**)&create = dlsym(RTLD_DEFAULT, "loft_heap_create");
  *(void**)&take = dlsym(RTLD_DEFAULT, "loft_heap_malloc");
  *(void**)&destroy = dlsym(RTLD_DEFAULT, "loft_heap_destroy");
  *(void**)&take_large = dlsym(RTLD_DEFAULT, "loft_malloc");
  if (create == NULL) return 2;
  void* heap = create();
  size_t bytes = 0;
  while (take(heap, 16) != NULL) bytes += 16;
  if (errno != ENOMEM) return 3;
  destroy(heap);
  if (take_large(bytes / 2) == NULL) return 4;
  printf("%zu\n", bytes);
  return 0;
}
