// Those of loft's own names that the storms call, on top of an engine: so that loft's storms shake
// it, beside libc's malloc and under the sanitizers.
#include <string.h>

#include "engine/calls.h"
#include "loft/loft.h"

extern "C" {

void* loft_malloc(size_t size) noexcept { return engine::checked_allocate(size); }
void loft_free(void* p) noexcept { engine::deallocate(p); }
void* loft_calloc(size_t count, size_t size) noexcept {
  return engine::allocate_array(count, size);
}
void* loft_realloc(void* p, size_t size) noexcept { return engine::resize(p, size); }
void* loft_aligned_alloc(size_t alignment, size_t size) noexcept {
  return engine::allocate_strictly(alignment, size);
}
size_t loft_malloc_usable_size(const void* p) noexcept { return engine::usable(p); }
int loft_malloc_trim(size_t) noexcept { return 0; }
uint64_t loft_purge(loft_unreached_t* unreached) noexcept {
  if (unreached != nullptr) *unreached = {};
  return 0;
}

// An engine has no such statistics: nothing is left over, as the storms see it.
int loft_stats(loft_stats_t* stats) noexcept {
  memset(stats, 0, sizeof(*stats));
  stats->struct_size = sizeof(*stats);
  return 0;
}
int loft_option_get(const char*, char* value, size_t size) noexcept {
  memset(value, 0, size);
  memcpy(value, "thread", size < 6 ? size : 6);
  return 0;
}

}  // extern "C"
