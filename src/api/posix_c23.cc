// C23's sized frees. The pagemap has the size already, so the caller's value saves nothing. They
// exist so that a program built for C23 frees where it allocates.
#include <stddef.h>
#include <stdlib.h>

#include "api/surface.h"
#include "base/macros.h"

extern "C" {

LOFT_EXPORT void free_sized(void* object, size_t) noexcept;
LOFT_EXPORT void free_aligned_sized(void* object, size_t, size_t) noexcept;

void free_sized(void* object, size_t size) noexcept {
  if (!loft::free_as_asked(object, size)) loft::replaceable(free)(object);
}
void free_aligned_sized(void* object, size_t alignment, size_t size) noexcept {
  if (!loft::free_as_asked(object, alignment, size)) loft::replaceable(free)(object);
}

}  // extern "C"
