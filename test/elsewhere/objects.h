// Objects of the everyday programs, which know whether somebody overwrote them. Included below the
// program's `fail` and its names for malloc and free.
#pragma once

static unsigned next(unsigned* state) { return (*state = *state * 1664525u + 1013904223u) >> 8; }

// The first bytes say how long the object is, the last one repeats a part of it.
static unsigned char* make(size_t size) {
  unsigned char* object = malloc(size);
  if (object == NULL) fail("no memory");
  memcpy(object, &size, sizeof(size));
  object[size - 1] = (unsigned char)(size >> 3);
  return object;
}

static void drop(unsigned char* object) {
  if (object == NULL) return;
  size_t size;
  memcpy(&size, object, sizeof(size));
  if (size < 16 || size > 4096 || object[size - 1] != (unsigned char)(size >> 3))
    fail("overwritten");
  free(object);
}
