// What snmalloc's tests call, by the standard functions. None of the objects is snmalloc's own, of
// which its tests accept that little is known: no beginning, and no end.
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

namespace snmalloc {

template <ZeroMem zero>
void* alloc(size_t size) {
  return zero == ZeroMem::YesZero ? calloc(1, size) : malloc(size);
}
template void* alloc<ZeroMem::YesZero>(size_t size);
template void* alloc<ZeroMem::NoZero>(size_t size);

void dealloc(void* p) { free(p); }
void dealloc(void* p, size_t) { free(p); }
void dealloc(void* p, size_t, size_t) { free(p); }

bool is_owned(void*) { return false; }
size_t alloc_size(const void* p) {
  return p == nullptr ? SIZE_MAX : malloc_usable_size(const_cast<void*>(p));
}
size_t remaining_bytes(const void*) { return SIZE_MAX; }

void debug_teardown() {}
void debug_check_empty(bool*) {}
void debug_in_use(size_t) {}

size_t max_small_sizeclass_bits() { return MAX_SMALL_SIZECLASS_BITS; }
size_t pal_address_bits() { return DefaultPal::address_bits; }
uint64_t pal_tick() { return DefaultPal::tick(); }
void pal_pause() { Aal::pause(); }

ScopedAllocHandle get_scoped_allocator() { return {}; }
ScopedAllocHandle::ScopedAllocHandle() : ptr(nullptr) {}
ScopedAllocHandle::~ScopedAllocHandle() {}
void* ScopedAllocHandle::alloc(size_t size) { return malloc(size); }
void ScopedAllocHandle::dealloc(void* p) { free(p); }
void ScopedAllocHandle::dealloc(void* p, size_t) { free(p); }
ScopedAllocHandle* ScopedAllocHandle::operator->() { return this; }

namespace libc {

void* malloc(size_t size) { return ::malloc(size); }
void* malloc_small(smallsizeclass_t size) { return ::malloc(sizeclass_to_size_const(size)); }
void* malloc_small_zero(smallsizeclass_t size) {
  return ::calloc(1, sizeclass_to_size_const(size));
}
void free(void* p) { ::free(p); }
size_t malloc_usable_size(const void* p) { return ::malloc_usable_size(const_cast<void*>(p)); }
void* __malloc_start_pointer(void*) { return nullptr; }
void* __malloc_last_byte_pointer(void*) { return reinterpret_cast<void*>(UINTPTR_MAX); }

}  // namespace libc
}  // namespace snmalloc

extern "C" {
void* testlib_malloc(size_t size) { return malloc(size); }
void testlib_free(void* p) { free(p); }
void* testlib_calloc(size_t count, size_t size) { return calloc(count, size); }
void* testlib_realloc(void* p, size_t size) { return realloc(p, size); }
void* testlib_reallocarray(void* p, size_t count, size_t size) {
  return reallocarray(p, count, size);
}
void* testlib_memalign(size_t alignment, size_t size) { return memalign(alignment, size); }
int testlib_posix_memalign(void** p, size_t alignment, size_t size) {
  return posix_memalign(p, alignment, size);
}
size_t testlib_malloc_usable_size(void* p) { return malloc_usable_size(p); }
size_t testlib_malloc_good_size(size_t size) { return size; }

// NetBSD's, which glibc lacks: the error is returned, and errno is as it was.
int testlib_reallocarr(void* place, size_t count, size_t size) {
  const int before = errno;
  void* old;
  memcpy(&old, place, sizeof(old));
  size_t all;
  if (__builtin_mul_overflow(count, size, &all)) {
    return EOVERFLOW;
  }
  void* changed = realloc(old, all);
  if (changed == nullptr && all != 0) {
    errno = before;
    return ENOMEM;
  }
  memcpy(place, &changed, sizeof(changed));
  return 0;
}
}
