#include "heaps/user_heap.h"

#include <new>

#include "base/options.h"
#include "base/peek.h"
#include "heap/large.h"
#include "os/fault.h"
#include "os/os.h"
#include "space/span.h"

namespace loft {

namespace {

constinit os::Lock user_heaps_lock;  // taken before any shard's
constinit List<UserHeap> user_heaps;
constinit UserHeap* next_to_purge = nullptr;  // null: start with the first
constinit size_t past_locks = 0;              // of the shards of destroyed heaps
constinit size_t past_waits = 0;              // (all of these under the lock)

// One thread at a time makes a round. Taken before the lock of the list, which a purge releases in
// between.
constinit os::Lock round_lock;

}  // namespace

// --- Making and destroying. ---

UserHeap* UserHeap::make() {
  if (!span::initialise()) return nullptr;
  void* memory = metadata::allocate(sizeof(UserHeap));
  if (memory == nullptr) return nullptr;
  auto* heap = new (memory) UserHeap;
  if (heap->add_shard() != nullptr) return heap;
  metadata::release(heap, sizeof(UserHeap));
  return nullptr;
}

// Under the lock of the list, or before the heap is in it.
Shard* UserHeap::add_shard() {
  const unsigned count = shard_count();
  if (count == kMostShards) return nullptr;
  void* memory = metadata::allocate(sizeof(Shard));
  if (memory == nullptr) return nullptr;
  shards_[count] = new (memory) Shard(this);
  shard_count_.store(count + 1, memory_order_release);
  return shards_[count];
}

void UserHeap::enlist() {
  const os::Guard guard(user_heaps_lock);
  user_heaps.push_front(this);
}

UserHeap* UserHeap::create() {
  UserHeap* heap = make();
  if (heap == nullptr) return nullptr;
  heap->enlist();
  return heap;
}

size_t UserHeap::units_in(uintptr_t region, size_t bytes) {
  const uintptr_t base = round_up(region, kUnit);
  const uintptr_t end = round_down(region + bytes, kUnit);
  return base >= region && end > base ? (end - base) >> kUnitLog : 0;
}

UserHeap* UserHeap::create_over(uintptr_t region, size_t bytes) {
  UserHeap* heap = make();
  if (heap == nullptr) return nullptr;
  heap->region_ = heap->shards_[0]->cover(round_up(region, kUnit), units_in(region, bytes));
  if (heap->region_ == nullptr) {
    heap->give_up();
    return nullptr;
  }
  heap->enlist();
  return heap;
}

void UserHeap::give_up() {
  mark_ = 0;
  for (unsigned i = 0; i < shard_count(); ++i) {
    shards_[i]->give_up();
    metadata::release(shards_[i], sizeof(Shard));
  }
  metadata::release(this, sizeof(UserHeap));
}

void UserHeap::destroy() {
  {
    const os::Guard guard(user_heaps_lock);
    if (next_to_purge == this) next_to_purge = next;
    user_heaps.remove(this);
    const Totals last = totals();
    past_locks += last.locks;
    past_waits += last.waits;
  }
  give_up();
}

// --- Objects. ---

// Returns, locked, the processor's own shard, or one that no thread holds. When threads meet, a
// shard is added; if they continue to meet, another one.
Shard& UserHeap::lock_one() {
  unsigned count = shard_count();
  const unsigned first = count == 1 ? 0 : os::processor() % count;
  if (LOFT_LIKELY(shards_[first]->lock().try_lock())) return *shards_[first];
  if (region_ == nullptr && count != kMostShards &&
      meetings_.fetch_add(1, memory_order_relaxed) % kMeetings == 0 && user_heaps_lock.try_lock()) {
    add_shard();
    user_heaps_lock.unlock();
    count = shard_count();
  }
  for (unsigned i = first + 1; i < first + count; ++i) {
    Shard& shard = *shards_[i < count ? i : i - count];
    if (shard.lock().try_lock()) return shard;
  }
  shards_[first]->lock().lock();
  return *shards_[first];
}

void* UserHeap::allocate(size_t size, size_t alignment, bool zeroed) {
  // PTRDIFF_MAX: the difference of two pointers into one object must be representable.
  if (size > PTRDIFF_MAX - kGranule || alignment > PTRDIFF_MAX) return nullptr;
  if (size == 0) size = 1;
  void* p = nullptr;
  bool zero = false;
  if (region_ == nullptr && Shard::stands_alone(size, alignment)) {
    p = shards_[0]->allocate_alone(size, alignment, zero);
    if (p != nullptr && zeroed && !zero) {
      large::clear(p, round_up(size, os::page_size()));
      zero = true;
    }
  } else {
    Shard& shard = lock_one();
    p = shard.allocate(size, alignment);
    shard.lock().unlock();
    // Another shard may have room.
    for (unsigned i = 0; LOFT_UNLIKELY(p == nullptr) && i < shard_count(); ++i) {
      if (shards_[i] == &shard) continue;
      const os::Guard guard(shards_[i]->lock());
      p = shards_[i]->allocate(size, alignment);
    }
  }
  if (p != nullptr && zeroed && !zero) __builtin_memset(p, 0, size);
  return p;
}

void UserHeap::free(const char* call, void* p) {
  Extent* extent = checked_extent(call, p);
  if (extent != nullptr) free(call, extent, p);
}

void UserHeap::free(const char* call, Extent* extent, void* p) {
  Shard& shard = *Shard::of(extent);
  Shard::Leftover leftover{};
  {
    const os::Guard guard(shard.lock());
    const ObjectAt object = object_starting_at(call, extent, p);
    if (LOFT_UNLIKELY(object.block == nullptr)) {
      leftover = shard.free_alone(extent);
    } else {
      if (LOFT_UNLIKELY(Blocks::is_free(object))) report_object("double free of", p, object);
      leftover = shard.free(object);
    }
  }
  Shard::finish(leftover);
}

size_t UserHeap::usable_size(const char* call, const void* p) const {
  const Extent* extent = checked_extent(call, p);
  return extent == nullptr ? 0 : object_starting_at(call, extent, p).bytes;
}

void* UserHeap::reallocate(const char* call, void* p, size_t size, size_t alignment) {
  Extent* extent = checked_extent(call, p);
  return extent == nullptr ? nullptr : reallocate(call, extent, p, size, alignment);
}

bool UserHeap::expand(const char* call, void* p, size_t size) {
  Extent* extent = checked_extent(call, p);
  return extent != nullptr && expand(call, extent, p, size);
}

// An object with a block of its own is cut, or grows into free memory behind it. Any other stays as
// it is if it fits.
bool UserHeap::expand(const char* call, Extent* extent, void* p, size_t size) {
  const ObjectAt object = checked_object(call, extent, p);
  if (size > PTRDIFF_MAX - kGranule) return false;
  if (object.block == nullptr || object.block->use != Use::kObject) return size <= object.bytes;
  Shard& shard = *Shard::of(extent);
  const os::Guard guard(shard.lock());
  return shard.resize(object.block, size);
}

// An object with an extent to itself stays if it fills half of it.
void* UserHeap::reallocate(const char* call, Extent* extent, void* p, size_t size,
                           size_t alignment) {
  const ObjectAt object = checked_object(call, extent, p);
  if (size > PTRDIFF_MAX - kGranule) return nullptr;
  const bool is_fitting = (object.block != nullptr || size >= object.bytes / 2) &&
                          reinterpret_cast<uintptr_t>(p) % alignment == 0;
  if (is_fitting && expand(call, extent, p, size)) return p;
  UserHeap* heap = of(extent);
  void* fresh = heap->allocate(size, alignment, false);
  if (fresh == nullptr) return nullptr;
  __builtin_memcpy(fresh, p, least(size, object.bytes));
  free(call, extent, p);
  return fresh;
}

size_t UserHeap::good_size(size_t size) const {
  if (size > PTRDIFF_MAX - kGranule) return size;
  if (region_ == nullptr && Shard::stands_alone(size, kAlignment)) {
    return round_up(size, os::page_size());
  }
  return Blocks::good_size(size);
}

bool UserHeap::in_a_region(const void* p) {
  if (!user_heaps_lock.try_lock()) return false;
  bool is = false;
  for (const UserHeap* heap = user_heaps.front(); heap != nullptr && !is; heap = heap->next) {
    is = heap->region_ != nullptr && heap->region_->covers(p);
  }
  user_heaps_lock.unlock();
  return is;
}

// --- All of them. ---

void UserHeap::add_to(Totals& totals) const {
  ++totals.heaps;
  totals.metadata_bytes += sizeof(UserHeap);
  for (unsigned i = 0; i < shard_count(); ++i) {
    Shard& shard = *shards_[i];
    const Shard::Counters& counters = shard.counters();
    totals.live_objects += shard.blocks().live_objects() + counters.alone.get();
    totals.live_bytes += shard.blocks().live_bytes() + counters.alone_bytes.get();
    totals.capacity_bytes += counters.extent_bytes.get();
    totals.metadata_bytes +=
        sizeof(Shard) + counters.metadata_bytes.get() + shard.blocks().metadata_bytes();
    totals.locks += shard.lock().acquisitions();
    totals.waits += shard.lock().waits();
  }
}

UserHeap::Totals UserHeap::totals() const {
  Totals totals{};
  add_to(totals);
  return totals;
}

// The holder of the lock may be purging, or waiting for a heap whose thread is. So a reader gets
// the sums of the last successful call.
UserHeap::Sums UserHeap::sums_of_all() {
  // Relaxed: each number stands alone.
  static constinit Atomic<size_t> heaps{0};
  static constinit Atomic<size_t> live_bytes{0};
  static constinit Atomic<size_t> locks{0};
  static constinit Atomic<size_t> waits{0};
  // If no heap was ever made, readers do not take the lock either.
  if (user_heaps_lock.acquisitions() != 0 && user_heaps_lock.try_lock()) {
    Totals totals{};
    for (const UserHeap* heap = user_heaps.front(); heap != nullptr; heap = heap->next) {
      heap->add_to(totals);
    }
    heaps.store(totals.heaps, memory_order_relaxed);
    live_bytes.store(totals.live_bytes, memory_order_relaxed);
    locks.store(totals.locks + past_locks, memory_order_relaxed);
    waits.store(totals.waits + past_waits, memory_order_relaxed);
    user_heaps_lock.unlock();
  }
  return {heaps.load(memory_order_relaxed), live_bytes.load(memory_order_relaxed),
          locks.load(memory_order_relaxed), waits.load(memory_order_relaxed)};
}

// Under the lock of the list, which others may take between two steps. They may destroy this heap;
// then `next_to_purge` no longer points to it.
void UserHeap::purge(size_t& purged) {
  for (unsigned i = 0; i < shard_count(); ++i) {
    Shard& shard = *shards_[i];
    for (bool starts = true, ends = false; !ends; starts = false) {
      {
        const os::Guard guard(shard.lock());
        if (starts) shard.start_round();
        shard.purge(true, user_heaps_lock, purged);
        ends = shard.round_is_over();
      }
      user_heaps_lock.let_others();
      if (next_to_purge != this) return;
    }
  }
}

size_t UserHeap::purge_all() {
  size_t purged = 0;
  const os::Guard round(round_lock);
  const os::Guard guard(user_heaps_lock);
  next_to_purge = user_heaps.front();
  while (UserHeap* heap = next_to_purge) {
    heap->purge(purged);
    if (next_to_purge == heap) next_to_purge = heap->next;
  }
  return purged;
}

// Rests each shard whose lock is free. False if work is left.
bool UserHeap::purge_idle() {
  bool all_done = true;
  for (unsigned i = 0; i < shard_count(); ++i) {
    Shard& shard = *shards_[i];
    if (!shard.needs_purge()) continue;
    bool ends = false;
    if (shard.lock().try_lock()) {
      const bool goes_on = !shard.round_is_over();
      if (goes_on || span::ticks() - shard.last_purge() >= span::kDecayTicks) {
        size_t purged = 0;
        if (!goes_on) shard.start_round();
        shard.purge(false, user_heaps_lock, purged);
        ends = shard.round_is_over() && !shard.needs_purge();
      }
      shard.lock().unlock();
    }
    all_done = all_done && ends;
  }
  return all_done;
}

bool UserHeap::purge_idle_of_all() {
  if (!round_lock.try_lock()) return false;
  bool all_done = true;
  {
    const os::Guard guard(user_heaps_lock);
    UserHeap* heap = next_to_purge != nullptr ? next_to_purge : user_heaps.front();
    bool stops = heap != user_heaps.front();
    for (next_to_purge = nullptr; heap != nullptr; heap = heap->next) {
      all_done = heap->purge_idle() && all_done;
      if (user_heaps_lock.has_sleepers()) {
        next_to_purge = heap->next;
        stops = true;
        break;
      }
    }
    all_done = all_done && !stops;
  }
  round_lock.unlock();
  return all_done;
}

void UserHeap::check() const {
  for (unsigned i = 0; i < shard_count(); ++i) {
    const os::Guard guard(shards_[i]->lock());
    shards_[i]->check();
  }
}

void UserHeap::prepare_fork() {
  user_heaps_lock.lock();
  for (const UserHeap* heap = user_heaps.front(); heap != nullptr; heap = heap->next) {
    for (unsigned i = 0; i < heap->shard_count(); ++i) heap->shards_[i]->lock().lock();
  }
}

void UserHeap::finish_fork(bool child) {
  for (const UserHeap* heap = user_heaps.front(); heap != nullptr; heap = heap->next) {
    for (unsigned i = 0; i < heap->shard_count(); ++i) {
      heap->shards_[i]->lock().after_fork(child);
    }
  }
  user_heaps_lock.after_fork(child);
  // A thread in a round had released the other locks when prepare_fork took them. So its position
  // is a valid place to continue.
  if (child) round_lock.reset();
}

// Lookup of addresses in heaps of the program's own.

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
