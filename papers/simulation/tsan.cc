// What code that is compiled with -fsanitize=thread calls at each access to memory, in the place of
// the thread sanitizer's own library.
//
// Atomic operations other than relaxed loads and stores are what threads see each other by: before
// them, processors with a lesser clock go first. All are sequentially consistent here, since one
// processor runs at a time.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "simulation/machine.h"

namespace {

void plain(const volatile void* at, size_t bytes, bool writes) {
  if (machine::is_inside()) machine::access(at, bytes, writes);
}

void atomic(const volatile void* at, size_t bytes, bool writes, int order) {
  if (!machine::is_inside()) return;
  if (order != __ATOMIC_RELAXED) machine::let_others();
  machine::access(at, bytes, writes);
  machine::note_atomic(at);
}

// A locked instruction, whatever its order.
void locked(const volatile void* at, size_t bytes) {
  if (!machine::is_inside()) return;
  atomic(at, bytes, true, __ATOMIC_SEQ_CST);
  machine::advance(machine::kAtomic);
  ++machine::tally.atomics;
}

}  // namespace

extern "C" {

void __tsan_init() {}
void __tsan_read_range(void* at, size_t bytes) { plain(at, bytes, false); }
void __tsan_write_range(void* at, size_t bytes) { plain(at, bytes, true); }

void __tsan_vptr_update(void** at, void*) { plain(at, sizeof(*at), true); }

#define SIMULATION_PLAIN(bytes)                                  \
  void __tsan_read##bytes(void* at) { plain(at, bytes, false); } \
  void __tsan_write##bytes(void* at) { plain(at, bytes, true); }
SIMULATION_PLAIN(1)
SIMULATION_PLAIN(2)
SIMULATION_PLAIN(4)
SIMULATION_PLAIN(8)
SIMULATION_PLAIN(16)

#define SIMULATION_FETCH(bits, operation)                                             \
  uint##bits##_t __tsan_atomic##bits##_fetch_##operation(volatile uint##bits##_t* at, \
                                                         uint##bits##_t value, int) { \
    locked(at, bits / 8);                                                             \
    return __atomic_fetch_##operation(at, value, __ATOMIC_SEQ_CST);                   \
  }
#define SIMULATION_COMPARE_EXCHANGE(bits, kind)                                                \
  bool __tsan_atomic##bits##_compare_exchange_##kind(                                          \
      volatile uint##bits##_t* at, uint##bits##_t* expected, uint##bits##_t value, int, int) { \
    locked(at, bits / 8);                                                                      \
    return __atomic_compare_exchange_n(at, expected, value, false, __ATOMIC_SEQ_CST,           \
                                       __ATOMIC_SEQ_CST);                                      \
  }
#define SIMULATION_ATOMIC(bits)                                                                    \
  uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t* at, int order) {        \
    atomic(at, bits / 8, false, order);                                                            \
    return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                                  \
  }                                                                                                \
  void __tsan_atomic##bits##_store(volatile uint##bits##_t* at, uint##bits##_t value, int order) { \
    if (order == __ATOMIC_SEQ_CST) {                                                               \
      locked(at, bits / 8); /* x86-64 has it as an exchange */                                     \
    } else {                                                                                       \
      atomic(at, bits / 8, true, order);                                                           \
    }                                                                                              \
    __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                                 \
  }                                                                                                \
  uint##bits##_t __tsan_atomic##bits##_exchange(volatile uint##bits##_t* at, uint##bits##_t value, \
                                                int) {                                             \
    locked(at, bits / 8);                                                                          \
    return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);                                       \
  }                                                                                                \
  SIMULATION_FETCH(bits, add)                                                                      \
  SIMULATION_FETCH(bits, sub)                                                                      \
  SIMULATION_FETCH(bits, and)                                                                      \
  SIMULATION_FETCH(bits, or)                                                                       \
  SIMULATION_FETCH(bits, xor)                                                                      \
  SIMULATION_COMPARE_EXCHANGE(bits, strong)                                                        \
  SIMULATION_COMPARE_EXCHANGE(bits, weak)
SIMULATION_ATOMIC(8)
SIMULATION_ATOMIC(16)
SIMULATION_ATOMIC(32)
SIMULATION_ATOMIC(64)

// Compiled for processors that have the instruction, as are its callers.
__attribute__((target("cx16"))) bool __tsan_atomic128_compare_exchange_strong(
    volatile unsigned __int128* at, unsigned __int128* expected, unsigned __int128 value, int,
    int) {
  locked(at, sizeof(*at));
  const unsigned __int128 wanted = *expected;
  *expected = __sync_val_compare_and_swap(at, wanted, value);
  return *expected == wanted;
}

void __tsan_atomic_thread_fence(int order) {
  if (!machine::is_inside()) return;
  if (order == __ATOMIC_SEQ_CST) machine::advance(machine::kAtomic);
  machine::let_others();
}
void __tsan_atomic_signal_fence(int) {}

// Calls of the C library, which is not compiled so. The linker sends them here (--wrap).
void* __real_memset(void* to, int value, size_t bytes);
void* __real_memcpy(void* to, const void* from, size_t bytes);
void* __real_memmove(void* to, const void* from, size_t bytes);

void* __wrap_memset(void* to, int value, size_t bytes) {
  plain(to, bytes, true);
  return __real_memset(to, value, bytes);
}
void* __wrap_memcpy(void* to, const void* from, size_t bytes) {
  plain(from, bytes, false);
  plain(to, bytes, true);
  return __real_memcpy(to, from, bytes);
}
void* __wrap_memmove(void* to, const void* from, size_t bytes) {
  plain(from, bytes, false);
  plain(to, bytes, true);
  return __real_memmove(to, from, bytes);
}

}  // extern "C"
