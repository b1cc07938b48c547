// The C library's functions on top of an engine, for surface.cc, which has their names, and for
// names.cc, which has those of loft's interface. What glibc documents for sizes of zero, products
// that overflow and odd alignments.
#pragma once

#include <cstddef>

namespace engine {

void* checked_allocate(size_t bytes);                    // nullptr and ENOMEM without memory
void* checked_allocate(size_t alignment, size_t bytes);  // any alignment that is a power of two
void* allocate_array(size_t count, size_t bytes);        // zeroed
void* resize(void* p, size_t bytes);
void* resize_array(void* p, size_t count, size_t bytes);
void* allocate_strictly(size_t alignment, size_t bytes);     // aligned_alloc
void* allocate_loosely(size_t alignment, size_t bytes);      // memalign
int allocate_to(void** to, size_t alignment, size_t bytes);  // posix_memalign
void* allocate_pages(size_t bytes);                          // valloc
void* allocate_whole_pages(size_t bytes);                    // pvalloc
void deallocate(void* p);                                    // keeps errno; nullptr is fine
size_t usable(const void* p);                                // 0 for nullptr

}  // namespace engine
