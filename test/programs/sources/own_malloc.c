// A malloc of the program's own: to be compiled into it.
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static _Alignas(64) char memory[64 << 20];
static atomic_size_t used;

int is_own(const void* object) { return (uintptr_t)object - (uintptr_t)memory < sizeof memory; }

void* memalign(size_t alignment, size_t size) {
  const size_t bytes = (size + alignment + 31) & ~(size_t)15;
  const size_t at = atomic_fetch_add(&used, bytes);
  if (bytes < size || at + bytes > sizeof memory) {
    errno = ENOMEM;
    return NULL;
  }
  const uintptr_t first = (uintptr_t)(memory + at + 16);
  char* const object = (char*)((first + alignment - 1) & ~(uintptr_t)(alignment - 1));
  *(size_t*)(object - 16) = size;
  return object;
}

void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

void* malloc(size_t size) { return memalign(16, size); }

void free(void* object) {
  if (object != NULL && !is_own(object)) __builtin_trap();
}

void* calloc(size_t count, size_t size) { return malloc(count * size); }

void* realloc(void* object, size_t size) {
  free(object);
  void* other = malloc(size);
  if (object == NULL || other == NULL) return other;
  const size_t before = *(size_t*)((char*)object - 16);
  return memcpy(other, object, before < size ? before : size);
}
