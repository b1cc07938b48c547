// Lookup of addresses in heaps of the program's own.
#include "base/options.h"
#include "base/peek.h"
#include "heaps/user_heap.h"
#include "os/fault.h"

namespace loft {

void UserHeap::report_object(const char* what, const void* p, const ObjectAt& object) {
  os::fault(Text() << what << " " << p << ": object " << reinterpret_cast<const void*>(object.start)
                   << " of " << uint64_t{object.bytes} << " bytes in a heap of the program's own");
}

ObjectAt UserHeap::object_at(const Extent* extent, const void* p) {
  if (extent->map != nullptr) return Blocks::object_at(extent, p);
  const bool inside = reinterpret_cast<uintptr_t>(p) - extent->base < extent->bytes;
  return inside ? ObjectAt{extent->base, extent->bytes, nullptr, 0} : ObjectAt{};
}

ObjectAt UserHeap::object_starting_at(const char* call, const Extent* extent, const void* p) {
  const ObjectAt object = object_at(extent, p);
  if (LOFT_UNLIKELY(object.start == 0)) {
    os::fault(Text() << call << " of a pointer to memory that is not allocated (freed before, or "
                     << "never): " << p);
  }
  if (LOFT_UNLIKELY(object.start != reinterpret_cast<uintptr_t>(p))) {
    report_object((Text() << call << " of an interior pointer").data(), p, object);
  }
  return object;
}

ObjectAt UserHeap::checked_object(const char* call, const Extent* extent, const void* p) {
  const ObjectAt object = object_starting_at(call, extent, p);
  if (object.block == nullptr || object.block->use == Use::kObject) return object;
  // Other threads may free objects of the same row meanwhile.
  const os::Guard guard(Shard::of(extent)->lock());
  if (LOFT_UNLIKELY(Blocks::is_free(object))) {
    report_object((Text() << call << " of a free object").data(), p, object);
  }
  return object;
}

// The owner is compared, never followed: any value read there differs from this heap's shards.
bool UserHeap::owns(const Extent* extent) const {
  const Shard* const owner = peek(extent->owner);
  for (unsigned i = 0; i < shard_count(); ++i) {
    if (shards_[i] == owner) return true;
  }
  return false;
}

Extent* UserHeap::extent_of(const void* p) const {
  if (region_ != nullptr) return region_->covers(p) ? region_ : nullptr;
  if (!pagemap.contains(p)) return nullptr;
  const Entry entry = pagemap.of(p);
  if (entry.bin() != kGuest) return nullptr;
  Extent* extent = Shard::extent_at(entry);
  return owns(extent) && extent->covers(p) ? extent : nullptr;
}

// As extent_of, for an argument of `call`. A pointer outside this heap is reported. The report
// stops the program, or, with the option misuse=continue, the result is nullptr.
Extent* UserHeap::checked_extent(const char* call, const void* p) const {
  Extent* extent = extent_of(p);
  if (LOFT_LIKELY(extent != nullptr)) return extent;
  Text line;
  line << call << " of a foreign pointer (not from this heap): " << p;
  if (get(options.misuse) == kMisuseStop) os::fault(line);
  os::misuse(line);
  return nullptr;
}

}  // namespace loft
