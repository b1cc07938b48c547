#include "cache/object.h"

#include "base/options.h"
#include "cache/guest.h"
#include "heap/heap.h"
#include "heap/large.h"
#include "os/fault.h"
#include "os/lock.h"
#include "slab/medium_runs.h"

namespace loft {

namespace {

bool is_in_use(const void* p, Entry entry) {
  if (entry.bin() == kMedium) return medium::run_at(entry)->covers(p);
  if (entry.bin() == kLarge) return !large::at(entry)->kept;
  return entry.is_slab() || entry.bin() == kGuest;
}

const char* what_is_wrong(const void* p, Entry entry) {
  if (!pagemap.contains(p)) {
    const char* const wrong = guest_objects.what_is_wrong(p);
    return wrong != nullptr ? wrong : "foreign pointer (not from loft's heap)";
  }
  return is_in_use(p, entry) ? "misaligned pointer"
                             : "pointer to memory that is not allocated (freed before, or never)";
}

LOFT_COLD Entry report_wrong(const char* call, const void* p, Entry entry) {
  Text line;
  line << call << " of a " << what_is_wrong(p, entry);
  if (entry.is_slab()) slab::report_misuse(line.data(), p, slab::at(entry));
  line << ": " << p;
  if (get(options.misuse) == kMisuseStop) os::fault(line);
  os::misuse(line);
  return Entry(kNoHeap, kNothing, 0);
}

}  // namespace

Entry checked_entry_slow(const char* call, const void* p) {
  if (LOFT_UNLIKELY(!pagemap.contains(p))) return report_wrong(call, p, Entry{});
  const Entry entry = large::entry_around(p);
  const bool is_right = is_in_use(p, entry) && reinterpret_cast<uintptr_t>(p) % kAlignment == 0;
  return LOFT_LIKELY(is_right) ? entry : report_wrong(call, p, entry);
}

void check_start_slow(const char* call, const void* p, Entry entry) {
  if (entry.bin() == kLarge) {
    const Large* object = large::at(entry);
    if (LOFT_LIKELY(reinterpret_cast<uintptr_t>(p) == object->start())) return;
    os::fault(Text() << call << " of an interior pointer " << p << ": large object "
                     << reinterpret_cast<const void*>(object->start()) << " of "
                     << uint64_t{object->bytes} << " bytes");
  }
  if (entry.bin() == kMedium && LOFT_LIKELY(medium::run_at(entry)->in_use_at(p))) return;
  const Text what = Text() << call << " of an interior pointer";
  if (entry.bin() == kMedium) medium::report_misuse(what.data(), p, medium::run_at(entry));
  slab::report_misuse(what.data(), p, slab::at(entry));
}

void check_freed(Heap* heap, void* const* cached, unsigned count, const void* p) {
  const os::Guard guard(heap->lock());
  const Entry entry = pagemap.of(p);
  // A double free: another thread freed p at the same time, and its flush released the slab.
  if (LOFT_UNLIKELY(!entry.is_slab())) slab::report_without_slab(p);
  const Slab* slab = slab::at(entry);
  const uint32_t object = slab->object_starting_at(p);
  if (object == kNoObject) {
    slab::report_misuse("free of an interior pointer", p, slab);
  }
  // If the slab was just taken over, another heap's lock guards the bits.
  bool twice = entry.owner() == heap->id() && (slab->bits[object / 64] >> object % 64 & 1) != 0;
  for (unsigned i = count; i != 0; --i) twice = twice || cached[i] == p;
  if (twice) slab::report_misuse("double free of", p, slab);
}

ObjectRange object_of(const void* p) {
  if (!pagemap.contains(p)) return {nullptr, 0};
  const Entry entry = large::entry_around(p);
  if (entry.bin() == kLarge) {
    const Large* object = large::at(entry);
    if (object->kept) return {nullptr, 0};
    if (LOFT_UNLIKELY(object->guarded)) {
      if (reinterpret_cast<uintptr_t>(p) - object->start() >= object->bytes - object->shift) {
        return {nullptr, 0};
      }
      return {reinterpret_cast<void*>(object->start()), object->asked};
    }
    return {reinterpret_cast<void*>(object->base), object->bytes};
  }
  if (entry.bin() == kMedium) {
    MediumRun* const run = medium::run_at(entry);
    if (!run->covers(p)) return {nullptr, 0};
    auto* const start = reinterpret_cast<void*>(run->address_of(run->first_of(p)));
    return {start, medium::usable_bytes(entry, start)};
  }
  if (entry.bin() == kGuest) return guest_objects.object_of(p, entry);
  if (!entry.is_slab()) return {nullptr, 0};
  const Slab* slab = slab::at(entry);
  const Geometry& shape = slab->shape();
  const uint64_t offset = reinterpret_cast<uintptr_t>(p) - slab->base;
  const uint64_t index = index_in(product_of(offset, shape.inverse));
  if (index >= shape.objects) return {nullptr, 0};
  return {reinterpret_cast<void*>(slab->base + index * shape.size), shape.size};
}

void report_bad_free(const void* p) { slab::at(pagemap.of(p))->report_bad_free(p); }

}  // namespace loft
