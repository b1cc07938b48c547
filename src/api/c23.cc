// C23's sized frees. The pagemap has the size already, so the caller's value saves nothing. They
// exist so that a program built for C23 frees where it allocates.
#include <stddef.h>
#include <stdlib.h>

#include "api/own_names.h"
#include "api/surface.h"
#include "base/macros.h"

namespace {

bool free_is_ours() { return !loft::is_anothers<void(void*)>("free", free, loft_own_free); }

}  // namespace

#define LOFT_WEAK LOFT_REPLACEABLE

extern "C" {

LOFT_WEAK void free_sized(void* object, size_t) noexcept;
LOFT_WEAK void free_aligned_sized(void* object, size_t, size_t) noexcept;

void free_sized(void* object, size_t size) noexcept {
  if (loft::once<free_is_ours>() && loft::free_as_asked(object, size)) return;
  loft::by_name(free)(object);
}
void free_aligned_sized(void* object, size_t alignment, size_t size) noexcept {
  if (loft::once<free_is_ours>() && loft::free_as_asked(object, alignment, size)) return;
  loft::by_name(free)(object);
}

}  // extern "C"

#undef LOFT_WEAK
