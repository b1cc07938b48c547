#include "cache/medium_cache.h"

#include "base/bits.h"
#include "base/options.h"
#include "base/peek.h"
#include "cache/arrays.h"
#include "cache/batch_cache.h"
#include "cache/object.h"
#include "heap/registry.h"
#include "os/fault.h"
#include "os/limits.h"
#include "os/os.h"

static_assert(loft::kMediumSlots <= 8 * sizeof(loft::MediumCache::used));

namespace loft::medium_cache {

namespace {

constexpr uint8_t kWatched = 32;  // frees that a block checks at once, as a bin does

// Returns a kept object to its heap. The owner is read again under the lock of the thread's heap:
// the object's run stays there then.
void give_back(ThreadCache* thread, void* p) {
  if (Heap* const heap = thread->heap; LOFT_LIKELY(heap != nullptr)) {
    const os::Guard guard(heap->lock());
    if (pagemap.of(p).owner() == heap->id()) {
      thread->counters.net_bytes.add(-medium::run_at(pagemap.of(p))->bytes_of(p));
      return heap->put_medium(p);
    }
  }
  batch_cache::send_medium(thread, p);
}

void empty(ThreadCache* thread, unsigned slot) {
  MediumCache& cache = thread->medium;
  if (cache.pages[slot] == 0) return;
  thread->counters.medium_kept_bytes.add(-(cache.pages[slot] * kRunPage));
  cache.pages[slot] = 0;
  give_back(thread, cache.kept[slot].at);
}

unsigned next_slot(ThreadCache* thread) {
  MediumCache& cache = thread->medium;
  cache.last = static_cast<uint8_t>((cache.last + 1) % kMediumSlots);
  empty(thread, cache.last);
  return cache.last;
}

// A slot with an object of so many pages; 0 finds an empty one. kMediumSlots if there is none.
unsigned slot_of(const MediumCache& cache, unsigned pages) {
  static_assert(kMediumSlots == 16);
  return find_in_sixteen(cache.pages, pages);
}

// What may be kept: a share of what the heap has handed out, so that a small program keeps little.
size_t budget_of(const ThreadCache* thread) {
  constexpr size_t kShare = 16;
  constexpr size_t kLeast = size_t{1} << 20;
  const size_t most_bytes = get(options.cache_bytes);
  const Heap* const heap = thread->heap;
  const size_t out = heap == nullptr ? 0 : heap->counters().medium_out.get();
  return least(most_bytes, most(kLeast, out / kShare));
}

// From now on, free's fast path fills the bin.
void open(ThreadCache* thread) {
  void** const slots = thread->medium.recent;
  thread->recent.set_top(slots);
  thread->recent.set_limit(slots + 1);
}

// Nobody counts the object in the bin, which may be as long as any. So where caches have a budget
// together, the bin is open only as long as each one's share is enough for it.
LOFT_COLD void follow_share(ThreadCache* thread) {
  MediumCache& cache = thread->medium;
  if (cache.watched != kWatched || thread->processor != nullptr) return;
  const bool is_open = thread->recent.limit() == cache.recent + 1;
  const bool opens = limits::cache_share() >= kMediumMax;
  if (opens && !is_open) open(thread);
  if (is_open && !opens) thread->recent = kEmptyBin;
}

// Whether one of so many bytes may be kept where caches have a budget together. Those kept longest
// make room.
LOFT_COLD bool make_shared_room(ThreadCache* thread, size_t bytes) {
  follow_share(thread);
  const Counter& kept = thread->counters.medium_kept_bytes;
  while (kept.get() + bytes > limits::cache_share() || !pool::has_room(thread, bytes)) {
    if (kept.get() == 0) return false;
    next_slot(thread);
  }
  return true;
}

// The same, wherever caches are. While memory is tight, kept objects may use the memory that is
// needed.
LOFT_NOINLINE bool make_room(ThreadCache* thread, size_t bytes) {
  const Counter& kept = thread->counters.medium_kept_bytes;
  const size_t budget = budget_of(thread);
  const bool shares = limits::bounds_caches();
  if (LOFT_UNLIKELY(shares && limits::tight())) {
    release_all(thread);
    return false;
  }
  if (LOFT_UNLIKELY(bytes > budget)) return false;
  if (LOFT_UNLIKELY(shares) && !make_shared_room(thread, bytes)) return false;
  while (kept.get() + bytes > budget) next_slot(thread);
  return true;
}

// Puts an object that is marked as kept into a slot, or returns it to its heap.
LOFT_ALWAYS_INLINE void put(ThreadCache* thread, void* p, MediumWord* word) {
  MediumCache& cache = thread->medium;
  Counter& kept = thread->counters.medium_kept_bytes;
  const unsigned pages = word->pages();
  const size_t bytes = pages * kRunPage;
  const bool fits = kept.get() + bytes <= budget_of(thread) && !limits::bounds_caches();
  if (LOFT_UNLIKELY(!fits) && !make_room(thread, bytes)) return give_back(thread, p);
  unsigned slot = slot_of(cache, 0);
  if (LOFT_UNLIKELY(slot == kMediumSlots)) slot = next_slot(thread);
  cache.last = static_cast<uint8_t>(slot);
  cache.kept[slot] = {p, word};
  compiler_fence();  // before it counts, for inherit
  cache.pages[slot] = static_cast<uint16_t>(pages);
  kept.add(bytes);
}

// What lies there now is younger, if it is right: the object came home before, and its run was
// given back.
LOFT_COLD MediumWord* report_wrong(void* p) {
  const Entry checked = checked_entry("free", p);
  if (checked.bin() == kNothing) return nullptr;
  check_start("free", p, checked);
  os::fault(Text() << "double free of " << p << ", whose run was given back since");
}

LOFT_ALWAYS_INLINE MediumWord* mark_as_kept(void* p, Entry entry) {
  if (LOFT_UNLIKELY(entry.bin() != kMedium)) return report_wrong(p);
  MediumWord* const word = medium::run_at(entry)->word_starting_at(p);
  if (LOFT_UNLIKELY(word == nullptr || !word->in_use())) return report_wrong(p);
  word->keep();
  return word;
}

// Moves the object of the bin to a slot. An own one: the bin takes no other.
LOFT_ALWAYS_INLINE void settle(ThreadCache* thread) {
  Bin& bin = thread->recent;
  void* const p = *bin.top();
  if (p == nullptr) return;
  MediumWord* const word = mark_as_kept(p, pagemap.of(p));
  bin.pop();
  if (LOFT_LIKELY(word != nullptr)) put(thread, p, word);
}

}  // namespace

MediumWord* mark(void* p, Entry entry) { return mark_as_kept(p, entry); }

void* take(ThreadCache* thread, size_t asked) {
  MediumCache& cache = thread->medium;
  Counter& kept_bytes = thread->counters.medium_kept_bytes;
  cache.credit = static_cast<uint8_t>(least(cache.credit + 1u, kMediumSlots));
  const unsigned pages = MediumWord::pages_for(asked);
  unsigned slot = slot_of(cache, pages);
  if (LOFT_UNLIKELY(slot == kMediumSlots)) {
    // The object in the bin may have these pages: malloc takes none from there under hardened=guard
    // and under a profile.
    settle(thread);
    slot = slot_of(cache, pages);
    if (slot == kMediumSlots) return nullptr;
  }
  const MediumCache::Kept kept = cache.kept[slot];
  cache.pages[slot] = 0;
  cache.used = static_cast<uint16_t>(cache.used | 1u << slot);
  kept_bytes.add(-(pages * kRunPage));
  ++thread->counters.medium_hits;
  // Before the mark goes: an object that was freed again while it was kept lies in the bin, too.
  settle(thread);
  compiler_fence();  // out of its slot before its mark can change, for inherit
  kept.word->set(asked);
  return kept.at;
}

void* take_from_heap(ThreadCache* thread, size_t asked, bool room, bool* zero) {
  thread->counters.medium_misses.add(1);
  const os::Guard guard(thread->heap->lock());
  void* const p = thread->heap->take_medium(asked, room, zero);
  if (p != nullptr) thread->counters.net_bytes.add(MediumWord::pages_for(asked) * kRunPage);
  return p;
}

void keep(ThreadCache* thread, void* p, Entry entry) {
  MediumCache& cache = thread->medium;
  settle(thread);
  MediumWord* const word = mark(p, entry);
  if (LOFT_UNLIKELY(word == nullptr)) return;
  const bool foreign = entry.owner() != thread->owner;
  if (LOFT_UNLIKELY(foreign && cache.credit == 0)) {
    give_back(thread, p);
  } else {
    if (LOFT_UNLIKELY(foreign)) --cache.credit;
    put(thread, p, word);
  }
  uint8_t& watched = cache.watched;
  if (LOFT_LIKELY(watched == kWatched) || thread->processor != nullptr)
    return;  // a processor has no bin
  ++watched;
  if (watched == kWatched) follow_share(thread);
}

void release_all(ThreadCache* thread) {
  settle(thread);
  for (unsigned i = 0; i < kMediumSlots; ++i) next_slot(thread);
  pool::tell(thread);
}

void reset(ThreadCache* thread) {
  thread->recent = kEmptyBin;
  thread->medium = MediumCache{};
}

void inherit(ThreadCache* dead) {
  const auto give_back = [](void* p) {
    Heap* const heap = registry::at(pagemap.of(p).owner());
    const os::Guard guard(heap->lock());
    heap->put_medium(p);
  };
  MediumCache& cache = dead->medium;
  for (unsigned slot = 0; slot < kMediumSlots; ++slot) {
    // One that is not marked is on its way out of its slot.
    const MediumCache::Kept& kept = cache.kept[slot];
    if (cache.pages[slot] != 0 && kept.word->object().kept) give_back(kept.at);
  }
  // One that is marked is on its way to a slot.
  if (void* const p = *dead->recent.top(); p != nullptr) {
    const Entry entry = pagemap.of(p);
    if (entry.bin() == kMedium && medium::run_at(entry)->in_use_at(p)) give_back(p);
  }
  reset(dead);
  dead->counters.medium_kept_bytes.add(-dead->counters.medium_kept_bytes.get());
}

void review(ThreadCache* thread) {
  MediumCache& cache = thread->medium;
  for (unsigned slot = 0; slot < kMediumSlots; ++slot) {
    if ((cache.used >> slot & 1) == 0) empty(thread, slot);
  }
  cache.used = 0;
  settle(thread);  // the next review finds it in a slot, unless it was taken
}

size_t hits(const ThreadCache* thread) { return peek(thread->counters.medium_hits); }

size_t held(const ThreadCache* thread, const void** recent) {
  size_t bytes = thread->counters.medium_kept_bytes.get();
  void** const top = peek(thread->recent.top());
  const void* const p = top == nullptr ? nullptr : peek(*top);
  *recent = p;
  if (p != nullptr && pagemap.of(p).bin() == kMedium) {
    bytes += medium::run_at(pagemap.of(p))->peek_at(p).pages * kRunPage;
  }
  return bytes;
}

}  // namespace loft::medium_cache
