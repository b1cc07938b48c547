// What the compiler calls under -fsanitize=thread, without that sanitizer's library: plain accesses
// of the code under test come to the explorer, where a scenario asks for that.
#include <cstdint>

#include "engine.h"

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

#define LOFT_ACCESSES(bytes)                                                \
  void __tsan_read##bytes(const void* at) { model::instrumented_read(at); } \
  void __tsan_write##bytes(const void* at) { model::instrumented_write(at); }
LOFT_ACCESSES(1)
LOFT_ACCESSES(2)
LOFT_ACCESSES(4)
LOFT_ACCESSES(8)
LOFT_ACCESSES(16)

void __tsan_read_range(const char* from, unsigned long bytes) {
  for (unsigned long i = 0; i < bytes; ++i) model::instrumented_read(from + i);
}
void __tsan_write_range(const char* from, unsigned long bytes) {
  for (unsigned long i = 0; i < bytes; ++i) model::instrumented_write(from + i);
}

// Words that are atomic without being an Atomic are none of the explorer's.
#define LOFT_ATOMIC(bits)                                                                  \
  uint##bits##_t __tsan_atomic##bits##_load(const uint##bits##_t* at, int) { return *at; } \
  void __tsan_atomic##bits##_store(uint##bits##_t* at, uint##bits##_t value, int) { *at = value; }
LOFT_ATOMIC(16)
LOFT_ATOMIC(32)
LOFT_ATOMIC(64)
uint32_t __tsan_atomic32_exchange(uint32_t* at, uint32_t value, int) {
  const uint32_t before = *at;
  *at = value;
  return before;
}
void __tsan_atomic_signal_fence(int) {}

}  // extern "C"
