// realloc, malloc_usable_size, and what changes an object's length without moving it.
#include "cache/guest.h"
#include "cache/medium_cache.h"
#include "cache/object.h"
#include "heap/heap.h"
#include "heap/large.h"
#include "malloc/allocate.h"
#include "malloc/ordinary.h"
#include "malloc/policy.h"
#include "os/fault.h"
#include "os/os.h"
#include "runtime/background.h"
#include "runtime/lifecycle.h"

namespace loft {

// Only if the thread's heap owns the run. Another heap's lock may be held for long.
bool resize_in_run(void* p, Entry entry, size_t size) {
  MediumRun* const run = medium::run_at(entry);
  const lifecycle::SlowPath slow;
  ThreadCache* const thread = slow.thread();
  if (thread == nullptr || thread->owner != entry.owner()) return false;
  const size_t usable = run->bytes_of(p);
  const os::Guard guard(thread->heap->lock());
  // Read again: another heap may have taken the run over.
  const bool stays = pagemap.of(p).owner() == thread->owner && thread->heap->resize_medium(p, size);
  if (stays) thread->counters.net_bytes.add(run->bytes_of(p) - usable);
  return stays;
}

namespace {

constexpr size_t kMostSlack = size_t{1} << 19;

// Another heap's object stays as it is if it fits.
bool stays_in_run(void* p, Entry entry, MediumRun* run, size_t size) {
  MediumWord& word = run->word_at(p);
  const unsigned pages = word.object().pages;
  const size_t usable = pages * kRunPage;
  if (is_medium(size) && MediumWord::pages_for(size) != pages && resize_in_run(p, entry, size)) {
    return true;
  }
  if (!stays(usable, size) || usable - size > kMostSlack) return false;
  word.set(pages, size);
  return true;
}

// A run has no object that would fit a slab: one that shrinks so far keeps a few pages.
bool expand_in_run(void* p, Entry entry, size_t size) {
  MediumRun* const run = medium::run_at(entry);
  MediumWord& word = run->word_at(p);
  const size_t least_size = most(size, kSmallMax + 1);
  if (!is_medium(least_size)) return false;
  if (MediumWord::pages_for(least_size) != word.object().pages) {
    resize_in_run(p, entry, least_size);
  }
  const unsigned pages = word.object().pages;
  if (least_size > pages * kRunPage) return false;
  word.set(pages, size);
  return true;
}

}  // namespace

// An object that has grown once will grow again.
void* allocate_with_room(size_t size) {
  const lifecycle::SlowPath slow;
  ThreadCache* const thread = slow.thread();
  bool zero = false;
  if (!is_medium(size) || !lifecycle::give_heap(thread)) return nullptr;
  return medium_cache::take_from_heap(thread, size, true, &zero);
}

namespace {

void* reallocate_medium(void* p, Entry entry, size_t size) {
  MediumRun* const run = medium::run_at(entry);
  if (stays_in_run(p, entry, run, size)) return p;
  const size_t usable = run->bytes_of(p);
  void* const fresh = size > usable ? allocate_with_room(size) : nullptr;
  if (fresh == nullptr) return reallocate_by_copy(p, usable, size);
  __builtin_memcpy(fresh, p, usable);
  deallocate(p);
  return fresh;
}

}  // namespace

size_t usable_size(const void* p) { return policy().usable_size("malloc_usable_size", p); }

void check_bounds(const char* call, const void* p, size_t bytes) {
  policy().check_bounds(call, p, bytes);
}

bool free_as_asked(void* p, size_t size) {
  if (LOFT_LIKELY(policy().free_as == core_policy().free_as)) return false;
  policy().free_as(p, {size, true, false, Maker::kMalloc, 0});
  return true;
}

bool free_as_asked(void* p, size_t alignment, size_t size) {
  if (LOFT_LIKELY(policy().free_as == core_policy().free_as)) return false;
  if (LOFT_UNLIKELY(p == nullptr)) return true;
  const bool fits = is_power_of_two(alignment) && reinterpret_cast<uintptr_t>(p) % alignment == 0;
  if (LOFT_UNLIKELY(!fits)) {
    if (!pagemap.contains(p)) return false;  // free says whose it is, or that it is nobody's
    os::fault(Text() << "free_aligned_sized of " << p << " as an object aligned to "
                     << uint64_t{alignment} << " bytes");
  }
  const auto log = static_cast<uint8_t>(highest_bit(alignment));
  policy().free_as(p, {size, true, false, Maker::kMalloc, log});
  return true;
}

void* reallocate(void* p, size_t size) { return policy().reallocate(p, size); }

// Of a free object nothing is known, and the whole place is taken for the object.
void check_bounds_ordinary(const char* call, const void* p, size_t bytes) {
  const ObjectRange object = object_of(p);
  if (LOFT_LIKELY(object.start == nullptr)) return;
  const size_t before = reinterpret_cast<uintptr_t>(p) - reinterpret_cast<uintptr_t>(object.start);
  // A sample of hardened=guard has more behind it in its page than was asked for.
  if (LOFT_LIKELY(before <= object.size && bytes <= object.size - before)) return;
  os::fault(Text() << call << " of " << uint64_t{bytes} << " bytes at " << p << ", "
                   << uint64_t{before} << " bytes into an object of " << uint64_t{object.size});
}

namespace {

// Of what is in no slab; and what is wrong.
LOFT_NOINLINE size_t usable_size_slow(const char* call, const void* p) {
  if (p == nullptr) return 0;
  const Entry entry = checked_entry(call, p);
  if (entry.bin() == kNothing) return 0;
  if (entry.bin() == kGuest) return guest_objects.usable_size(call, p, entry);
  check_start(call, p, entry);
  if (entry.bin() == kMedium) return medium::usable_bytes(entry, p);
  return entry.bin() == kLarge ? large::at(entry)->bytes : class_size(class_of_bin(entry.bin()));
}

}  // namespace

size_t usable_size_ordinary(const char* call, const void* p) {
  if (LOFT_UNLIKELY(!pagemap.limit.contains(pagemap.position(p)))) return usable_size_slow(call, p);
  const Entry entry = pagemap.of(p);
  const Geometry* const shape = LOFT_LIKELY(entry.is_slab()) ? shape_at_start(p, entry) : nullptr;
  return LOFT_LIKELY(shape != nullptr) ? shape->size : usable_size_slow(call, p);
}

LOFT_NOINLINE void* reallocate_by_copy(void* p, size_t held, size_t size) {
  void* const fresh = allocate(size);
  if (fresh == nullptr) return nullptr;
  __builtin_memcpy(fresh, p, least(held, size));
  deallocate(p);
  return fresh;
}

void* reallocate_small(void* p, Entry entry, size_t size) {
  const size_t usable = class_size(class_of_bin(entry.bin()));
  return stays(usable, size) ? p : reallocate_by_copy(p, usable, size);
}

void* reallocate_guest(const char* call, void* p, Entry entry, size_t size, size_t alignment) {
  void* resized = guest_objects.reallocate(call, p, entry, size, alignment);
  if (LOFT_UNLIKELY(resized == nullptr)) {
    reclaim();
    resized = guest_objects.reallocate(call, p, entry, size, alignment);
  }
  background::look_after();
  return resized != nullptr ? resized : refuse(size);
}

namespace {

// What is not as reallocate_ordinary would have it; and what is wrong.
LOFT_NOINLINE void* reallocate_slow(void* p, size_t size) {
  const Entry entry = checked_entry("realloc", p);
  if (entry.bin() == kNothing) return os::out_of_memory();
  if (entry.bin() == kGuest) return reallocate_guest("realloc", p, entry, size, kAlignment);
  check_start("realloc", p, entry);
  if (entry.bin() == kMedium) return reallocate_medium(p, entry, size);
  LOFT_CHECK(entry.bin() == kLarge);
  Large* object = large::at(entry);
  if (size > PTRDIFF_MAX - kGranule) return os::out_of_memory();
  void* const resized =
      size > kSmallMax ? policy().resize_large(object, size, large::resize) : nullptr;
  return resized != nullptr ? resized : reallocate_by_copy(p, object->bytes, size);
}

}  // namespace

// At once: an object in a slab, and a medium one that keeps its pages.
void* reallocate_ordinary(void* p, size_t size) {
  if (LOFT_UNLIKELY(!pagemap.limit.contains(pagemap.position(p)))) return reallocate_slow(p, size);
  const Entry entry = pagemap.of(p);
  if (LOFT_UNLIKELY(!entry.is_slab())) {
    if (entry.bin() == kMedium) {
      MediumWord* const word = medium::run_at(entry)->word_starting_at(p);
      if (word != nullptr && word->serves(size, pagemap.medium_page)) {
        word->set(size);
        return p;
      }
    }
    return reallocate_slow(p, size);
  }
  const Geometry* const shape = shape_at_start(p, entry);
  if (LOFT_UNLIKELY(shape == nullptr)) return reallocate_slow(p, size);
  return LOFT_LIKELY(stays(shape->size, size)) ? p : reallocate_by_copy(p, shape->size, size);
}

void* resize_large_ordinary(Large* object, size_t size, ResizeLarge how) {
  const size_t bytes = object->bytes;
  void* const resized = how(object, size);
  if (resized == nullptr || object->bytes == bytes) return resized;
  lifecycle::count_net(object->bytes - bytes);
  background::look_after();  // purges what was freed
  return resized;
}

bool expand_ordinary(const char* call, void* p, size_t size) {
  const Entry entry = checked_entry(call, p);
  if (entry.bin() == kNothing || size > PTRDIFF_MAX - kGranule) return false;
  if (entry.bin() == kGuest) {
    const bool resized = guest_objects.expand(call, p, entry, size);
    background::look_after();
    return resized;
  }
  check_start(call, p, entry);
  if (entry.bin() == kMedium) return expand_in_run(p, entry, size);
  if (entry.bin() != kLarge) return stays(class_size(class_of_bin(entry.bin())), size);
  return policy().resize_large(large::at(entry), size, large::expand) != nullptr;
}

size_t good_size_ordinary(size_t alignment, size_t size) {
  if (size <= kSmallMax && alignment <= kSmallMax) {
    return class_size(class_of(round_up(size, most(alignment, kAlignment))));
  }
  return size > PTRDIFF_MAX - kGranule ? size : round_up(size, os::page_size());
}

// realloc with an alignment, and what is told of lengths.

namespace {

// Of an object whose pages can go to another place, at the start of a granule.
void* resize_pages(void* p, size_t alignment, size_t size) {
  if (alignment > kGranule || size <= kSmallMax || size > PTRDIFF_MAX - kGranule) return nullptr;
  if (!pagemap.contains(p)) return nullptr;
  const Entry entry = pagemap.of(p);
  if (entry.bin() != kLarge || large::at(entry)->guarded) return nullptr;
  return policy().resize_large(large::at(entry), size, large::resize);
}

}  // namespace

bool expand(const char* call, void* p, size_t size) { return policy().expand(call, p, size); }

size_t good_size(size_t alignment, size_t size) {
  return policy().good_size(alignment, most<size_t>(size, 1));
}

void* reallocate_aligned(void* p, size_t alignment, size_t size) {
  constexpr const char* kCall = "loft_aligned_realloc";
  if (alignment <= kAlignment) return reallocate(p, size);
  const size_t held = policy().usable_size(kCall, p);
  // Reported; misuse=continue goes on. An object of no bytes is one.
  if (held == 0 && !policy().is_object(p)) {
    return os::out_of_memory();
  }
  if (pagemap.contains(p) && pagemap.of(p).bin() == kGuest) {
    return reallocate_guest(kCall, p, pagemap.of(p), size, alignment);
  }
  const bool is_aligned = reinterpret_cast<uintptr_t>(p) % alignment == 0;
  const bool is_for_slab = size <= kSmallMax && held > kSmallMax;
  if (is_aligned && !is_for_slab && expand(kCall, p, size)) return p;
  if (void* const resized = resize_pages(p, alignment, size); resized != nullptr) return resized;
  void* const fresh = allocate_aligned(alignment, size);
  if (fresh == nullptr) return nullptr;
  __builtin_memcpy(fresh, p, least(held, size));
  deallocate(p);
  return fresh;
}

}  // namespace loft
