// A malloc of the program's own: to be compiled into it.
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static _Alignas(64) char memory[64 << 20];
static atomic_size_t used;

void* malloc(size_t size) {
  const size_t bytes = (size + 31) & ~(size_t)15;
  const size_t at = atomic_fetch_add(&used, bytes);
  if (bytes < size || at + bytes > sizeof memory) {
    errno = ENOMEM;
    return NULL;
  }
  *(size_t*)(memory + at) = size;
  return memory + at + 16;
}

void free(void* object) {
  if (object != NULL && (uintptr_t)object - (uintptr_t)memory >= sizeof memory) __builtin_trap();
}

void* calloc(size_t count, size_t size) { return malloc(count * size); }

void* realloc(void* object, size_t size) {
  free(object);
  void* other = malloc(size);
  if (object == NULL || other == NULL) return other;
  const size_t before = *(size_t*)((char*)object - 16);
  return memcpy(other, object, before < size ? before : size);
}
