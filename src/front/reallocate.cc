// realloc and malloc_usable_size.
#include "arena/user_heap.h"
#include "cache/large_transfer.h"
#include "cache/object.h"
#include "front/allocate.h"
#include "large/large.h"
#include "os/os.h"
#include "purge/background.h"
#include "space/limits.h"

namespace loft {

namespace {

// An object stays in place if the new size fits and fills at least half of it.
bool stays(size_t usable, size_t size) { return size <= usable && size >= usable / 2; }

void* reallocate_by_copy(void* p, size_t usable, size_t size) {
  void* fresh = allocate(size);
  if (fresh == nullptr) return nullptr;
  __builtin_memcpy(fresh, p, least(usable, size));
  deallocate(p);
  return fresh;
}

}  // namespace

size_t usable_size(const void* p) {
  if (p == nullptr) return 0;
  const Entry entry = checked_entry("malloc_usable_size", p);
  if (entry.bin() == kNothing) return 0;
  if (entry.bin() == kExtent) {
    return UserHeap::object_starting_at("malloc_usable_size", Shard::extent_at(entry), p).bytes;
  }
  check_start("malloc_usable_size", p, entry);
  return entry.bin() == kLarge ? large::at(entry)->bytes : class_size(class_of_bin(entry.bin()));
}

void* reallocate(void* p, size_t size) {
  const Entry entry = checked_entry("realloc", p);
  if (entry.bin() == kNothing) return os::out_of_memory();
  if (entry.bin() == kExtent) {
    Extent* extent = Shard::extent_at(entry);
    void* resized = UserHeap::reallocate("realloc", extent, p, size);
    if (LOFT_UNLIKELY(resized == nullptr)) {
      reclaim();
      resized = UserHeap::reallocate("realloc", extent, p, size);
    }
    background::look_after();
    return resized != nullptr ? resized : refuse(size);
  }
  check_start("realloc", p, entry);
  if (entry.bin() != kLarge) {
    const size_t usable = class_size(class_of_bin(entry.bin()));
    return stays(usable, size) ? p : reallocate_by_copy(p, usable, size);
  }
  Large* object = large::at(entry);
  if (size > PTRDIFF_MAX - kGranule) return os::out_of_memory();
  if (size > kSmallMax) {
    const size_t bytes = object->bytes;
    void* resized = large::resize(object, size);
    // Under a hard limit, the transfer cache may hold the bytes that the resize lacks.
    if (resized == nullptr && limits::hard() != limits::kNone && large_transfer::release_all()) {
      resized = large::resize(object, size);
    }
    if (resized != nullptr) {
      if (object->bytes != bytes) background::look_after();  // purges what it freed
      return resized;
    }
  }
  return reallocate_by_copy(p, object->bytes, size);
}

}  // namespace loft
