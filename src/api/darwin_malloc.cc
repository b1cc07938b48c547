// How programs come to loft under macOS.
//
// The C library there has zones: a table of functions each, and the first in its list gives what
// malloc returns. loft registers one and makes it the first, so that the system's own libraries
// allocate here, too. What another zone gave goes back to that zone, which the C library finds by
// asking each how large the object is: a foreign pointer is of size 0 here.
//
// In a library that is loaded by DYLD_INSERT_LIBRARIES, calls also skip the list: the loader binds
// other images' malloc and free to the functions below. It does not do so for calls from here, so
// that `free` means the C library's. operator new and delete are left to the C++ library, which
// calls malloc and free.
#include <errno.h>
#include <malloc/malloc.h>
#include <stdlib.h>

#include "api/surface.h"
#include "base/bits.h"
#include "base/macros.h"
#include "cache/object.h"
#include "front/allocate.h"
#include "space/pagemap.h"
#include "stats/stats.h"

namespace loft {

namespace {

bool is_ours(const void* p) {
  return LOFT_LIKELY(pagemap.contains(p)) && pagemap.of(p).bin() != kNothing;
}

// 0 for what is no object's first byte.
size_t size_here(const void* p) {
  if (p == nullptr || !is_ours(p)) return 0;
  return object_of(p).start == p ? usable_size(p) : 0;
}

// The smallest object for size 0, as the C library there. Whose an object is the C library knows by
// its size, so that none may have size 0: those of hardened=full and guard would.
size_t not_none(size_t size) { return most<size_t>(size, 1); }

void* array_of(size_t count, size_t size) {
  return count == 0 || size == 0 ? allocate_array(1, 1) : allocate_array(count, size);
}

// ---- What other images call in place of the C library's functions ----

void* inserted_malloc(size_t size) { return allocate(not_none(size)); }

void* inserted_calloc(size_t count, size_t size) { return array_of(count, size); }

void inserted_free(void* object) {
  if (LOFT_LIKELY(is_ours(object))) return deallocate(object);
  if (object != nullptr) free(object);
}

void* inserted_realloc(void* object, size_t size) {
  if (object != nullptr && !is_ours(object)) return realloc(object, size);
  return resize(object, not_none(size));
}

void* inserted_reallocf(void* object, size_t size) {
  void* const moved = inserted_realloc(object, size);
  if (moved == nullptr) inserted_free(object);
  return moved;
}

void* inserted_valloc(size_t size) { return allocate_at_page(not_none(size)); }

void* inserted_aligned_alloc(size_t alignment, size_t size) {
  return allocate_aligned_strict(alignment, not_none(size));
}

int inserted_posix_memalign(void** object, size_t alignment, size_t size) {
  return allocate_aligned_posix(object, alignment, not_none(size));
}

size_t inserted_malloc_size(const void* object) {
  return is_ours(object) ? size_here(object) : malloc_size(object);
}

// ---- The zone ----

size_t zone_size(malloc_zone_t*, const void* p) { return size_here(p); }
void* zone_malloc(malloc_zone_t*, size_t size) { return allocate(not_none(size)); }
void* zone_calloc(malloc_zone_t*, size_t count, size_t size) { return array_of(count, size); }
void* zone_valloc(malloc_zone_t*, size_t size) { return inserted_valloc(size); }
void zone_free(malloc_zone_t*, void* object) { inserted_free(object); }
void* zone_realloc(malloc_zone_t*, void* object, size_t size) {
  return inserted_realloc(object, size);
}
void* zone_memalign(malloc_zone_t*, size_t alignment, size_t size) {
  return inserted_aligned_alloc(alignment, size);
}
void zone_free_definite_size(malloc_zone_t*, void* object, size_t) { inserted_free(object); }
void zone_destroy(malloc_zone_t*) {}  // others have its objects

unsigned zone_batch_malloc(malloc_zone_t*, size_t size, void** objects, unsigned count) {
  unsigned made = 0;
  while (made != count && (objects[made] = allocate(not_none(size))) != nullptr) ++made;
  return made;
}
void zone_batch_free(malloc_zone_t*, void** objects, unsigned count) {
  for (unsigned i = 0; i < count; ++i) inserted_free(objects[i]);
}

size_t zone_pressure_relief(malloc_zone_t*, size_t) { return trim(0); }
boolean_t zone_claimed_address(malloc_zone_t*, void* p) { return is_ours(p) ? 1 : 0; }

// Tools ask these, among them of another process. The objects are listed by loft_visit_objects
// alone.
kern_return_t list_nothing(task_t, void*, unsigned, vm_address_t, memory_reader_t,
                           vm_range_recorder_t) {
  return KERN_SUCCESS;
}
size_t zone_good_size(malloc_zone_t*, size_t size) { return good_size(kAlignment, size); }
boolean_t is_consistent(malloc_zone_t*) { return 1; }
void print_nothing(malloc_zone_t*, boolean_t) {}
void log_nothing(malloc_zone_t*, void*) {}
void fill_statistics(malloc_zone_t*, malloc_statistics_t* statistics) {
  const loft_stats_t now = counted_stats();
  *statistics = {};
  statistics->size_in_use = now.allocated_bytes;
  statistics->max_size_in_use = now.allocated_bytes;
  statistics->size_allocated = now.committed_bytes;
}

// Around a fork loft's own handlers hold the locks (thread/lifecycle.cc). The C library runs them
// outside of these.
void lock_nothing(malloc_zone_t*) {}
boolean_t is_locked(malloc_zone_t*) { return 0; }

constinit malloc_introspection_t introspection{};
constinit malloc_zone_t zone{};

constexpr unsigned kZoneVersion = 10;  // with all functions that are filled in below

void fill_in_zone() {
  introspection.enumerator = list_nothing;
  introspection.good_size = zone_good_size;
  introspection.check = is_consistent;
  introspection.print = print_nothing;
  introspection.log = log_nothing;
  introspection.force_lock = lock_nothing;
  introspection.force_unlock = lock_nothing;
  introspection.statistics = fill_statistics;
  introspection.zone_locked = is_locked;
  introspection.reinit_lock = lock_nothing;
  zone.size = zone_size;
  zone.malloc = zone_malloc;
  zone.calloc = zone_calloc;
  zone.valloc = zone_valloc;
  zone.free = zone_free;
  zone.realloc = zone_realloc;
  zone.destroy = zone_destroy;
  zone.zone_name = "loft";
  zone.batch_malloc = zone_batch_malloc;
  zone.batch_free = zone_batch_free;
  zone.introspect = &introspection;
  zone.version = kZoneVersion;
  zone.memalign = zone_memalign;
  zone.free_definite_size = zone_free_definite_size;
  zone.pressure_relief = zone_pressure_relief;
  zone.claimed_address = zone_claimed_address;
}

malloc_zone_t* first_zone() {
  vm_address_t* zones = nullptr;
  unsigned count = 0;
  // Of this process: it reads nothing and copies nothing.
  const kern_return_t result = malloc_get_all_zones(mach_task_self(), nullptr, &zones, &count);
  return result == KERN_SUCCESS && count != 0 ? reinterpret_cast<malloc_zone_t*>(zones[0])
                                              : malloc_default_zone();
}

// The first zone of the list is the default one. Removing a zone puts the last into its place, and
// registering one puts it at the end: after a turn of the first, loft's is the first. The purgeable
// zone must exist before: the C library makes it of the default one when it is first asked for.
[[gnu::constructor(103)]] void become_default() {
  fill_in_zone();
  malloc_zone_t* const purgeable = malloc_default_purgeable_zone();
  malloc_zone_register(&zone);
  constexpr int kMostTurns = 64;  // of a list that somebody else changes at the same time
  for (int i = 0; i < kMostTurns; ++i) {
    malloc_zone_t* const first = first_zone();
    if (first == &zone) break;
    malloc_zone_unregister(first);
    malloc_zone_register(first);
    // Before the default one, small objects would be looked for there first.
    if (purgeable != nullptr && purgeable != first) {
      malloc_zone_unregister(purgeable);
      malloc_zone_register(purgeable);
    }
  }
}

// ---- For the loader ----

struct Insertion {
  const void* replacement;
  const void* original;
};

#define LOFT_INSERT(name)                           \
  {reinterpret_cast<const void*>(&inserted_##name), \
   reinterpret_cast<const void*>(static_cast<decltype(&inserted_##name)>(&::name))}

[[gnu::used, gnu::section("__DATA,__interpose")]] const Insertion insertions[] = {
    LOFT_INSERT(malloc),        LOFT_INSERT(calloc),         LOFT_INSERT(free),
    LOFT_INSERT(realloc),       LOFT_INSERT(reallocf),       LOFT_INSERT(valloc),
    LOFT_INSERT(aligned_alloc), LOFT_INSERT(posix_memalign), LOFT_INSERT(malloc_size),
};
#undef LOFT_INSERT

}  // namespace

}  // namespace loft
