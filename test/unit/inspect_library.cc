// A library that is loaded and unloaded while its function runs in stacks. It is built in two forms
// that differ in the size of a frame alone, and in one without a table of its frame information.
#include <stddef.h>

extern "C" __attribute__((visibility("default"))) size_t pass_on(void (*next)(void*),
                                                                 void* closure) {
  char frame[LOFT_FRAME];
  // The compiler must assume that all of it is used.
  __asm__ volatile("" : : "r"(frame) : "memory");
  next(closure);
  __asm__ volatile("" : : "r"(frame) : "memory");
  return sizeof frame;
}
