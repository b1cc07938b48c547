// The C runtime's allocation functions in a program that loft is linked into. The linker takes
// these for the runtime's; the pointers are for objects that were compiled for a runtime in a
// library of its own. What the runtime allocates in its library goes back there.
#include <errno.h>
#include <windows.h>

#include "api/windows_family.h"
#include "base/atomic.h"
#include "base/macros.h"

namespace loft::family {

namespace {

constinit Runtime linked_runtime{};
// Release and acquire pair: who finds it set finds the functions.
constinit Atomic<bool> found_linked{false};

template <class Function>
void find(HMODULE module, const char* name, Function** function) {
  *function = reinterpret_cast<Function*>(reinterpret_cast<void*>(GetProcAddress(module, name)));
}

LOFT_COLD void find_linked() {
  const DWORD saved = GetLastError();
  int* (*const error_number)() = _errno;  // of the runtime, in its library
  HMODULE module = nullptr;
  GetModuleHandleExA(
      GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
      reinterpret_cast<const char*>(reinterpret_cast<void*>(error_number)), &module);
  Runtime runtime;
  find(module, "free", &runtime.free);
  find(module, "realloc", &runtime.realloc);
  find(module, "_msize", &runtime.msize);
  find(module, "_expand", &runtime.expand);
  find(module, "_aligned_free", &runtime.aligned_free);
  find(module, "_aligned_msize", &runtime.aligned_msize);
  runtime.error_number = error_number;
  // Two threads write the same.
  linked_runtime = runtime;
  found_linked.store(true, memory_order_release);
  SetLastError(saved);
}

LOFT_ALWAYS_INLINE const Runtime& linked() {
  if (LOFT_UNLIKELY(!found_linked.load(memory_order_acquire))) find_linked();
  return linked_runtime;
}

}  // namespace

}  // namespace loft::family

namespace family = loft::family;

// The runtime's headers say that most of these come from its library.
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Winconsistent-dllimport"
#endif

extern "C" {

void* malloc(size_t size) { return loft::allocate(size); }
void free(void* p) {
  if (LOFT_UNLIKELY(family::is_in_a_gap(p))) return family::free_slow(family::linked(), p);
  const auto slow = [](void* object) { family::free_slow(family::linked(), object); };
  loft::deallocate<false>(p, slow, slow);
}
void* calloc(size_t count, size_t size) {
  return family::allocate_zeroed_to_the_end(family::linked(), count, size);
}
void* realloc(void* p, size_t size) { return family::resize(family::linked(), p, size); }
void* _recalloc(void* p, size_t count, size_t size) {
  return family::resize_zeroed(family::linked(), p, count, size);
}
void* _expand(void* p, size_t size) { return family::expand(family::linked(), p, size); }
size_t _msize(void* p) { return family::size_of(family::linked(), p); }

void* _aligned_malloc(size_t size, size_t alignment) {
  return family::allocate_aligned(family::linked(), size, alignment, 0);
}
void* _aligned_offset_malloc(size_t size, size_t alignment, size_t offset) {
  return family::allocate_aligned(family::linked(), size, alignment, offset);
}
void* _aligned_realloc(void* p, size_t size, size_t alignment) {
  return family::resize_aligned(family::linked(), p, size, alignment, 0);
}
void* _aligned_offset_realloc(void* p, size_t size, size_t alignment, size_t offset) {
  return family::resize_aligned(family::linked(), p, size, alignment, offset);
}
void* _aligned_recalloc(void* p, size_t count, size_t size, size_t alignment) {
  return family::resize_aligned_zeroed(family::linked(), p, count, size, alignment, 0);
}
void* _aligned_offset_recalloc(void* p, size_t count, size_t size, size_t alignment,
                               size_t offset) {
  return family::resize_aligned_zeroed(family::linked(), p, count, size, alignment, offset);
}
void _aligned_free(void* p) { family::free_aligned(family::linked(), p); }
size_t _aligned_msize(void* p, size_t alignment, size_t offset) {
  return family::size_of_aligned(family::linked(), p, alignment, offset);
}
int _heapwalk(struct _heapinfo*) { return family::refuse_to_walk(family::linked()); }

#define LOFT_IMPORTED(name) [[gnu::used]] decltype(&name) __imp_##name = name;
LOFT_IMPORTED(malloc)
LOFT_IMPORTED(free)
LOFT_IMPORTED(calloc)
LOFT_IMPORTED(realloc)
LOFT_IMPORTED(_recalloc)
LOFT_IMPORTED(_expand)
LOFT_IMPORTED(_msize)
LOFT_IMPORTED(_aligned_malloc)
LOFT_IMPORTED(_aligned_offset_malloc)
LOFT_IMPORTED(_aligned_realloc)
LOFT_IMPORTED(_aligned_offset_realloc)
LOFT_IMPORTED(_aligned_recalloc)
LOFT_IMPORTED(_aligned_offset_recalloc)
LOFT_IMPORTED(_aligned_free)
LOFT_IMPORTED(_aligned_msize)
LOFT_IMPORTED(_heapwalk)
#undef LOFT_IMPORTED

}  // extern "C"

#if defined(__clang__)
#pragma clang diagnostic pop
#endif
