#include "heap/heap.h"

#include "base/options.h"
#include "os/fault.h"
#include "os/limits.h"
#include "slab/run.h"
#include "space/prefault.h"
#include "space/span.h"

namespace loft {

namespace {

// The number of records after which a refill stops draining, at the end of a message. Each record
// is a visit to a slab: a cache miss or two. With several hundred in a small refill, one malloc in
// ten thousand took 15 microseconds instead of 5. The limit exceeds `wanted`: most records carry
// one object, and a refill that received fewer objects than it hands out would let the inbox grow.
constexpr unsigned kLeastRefillRecords = 64;
constexpr unsigned most_records(unsigned wanted) {
  constexpr unsigned kAhead = 16;
  return most(kLeastRefillRecords, wanted + kAhead);
}

}  // namespace

unsigned Heap::refill(SizeClass size_class, void** slots, unsigned wanted) {
  counters_.refills.add(1);
  counters_.classes[size_class].refills.add(1);
  if (LOFT_UNLIKELY(span::ticks() != last_tick_)) tick();
  if (inbox_.maybe_pending()) {
    drain(kDrainBytes, kDrainBytes / most_records(wanted));
  }
  return take(size_class, slots, wanted);
}

Slab* Heap::next_slab(SizeClass size_class) const {
  for (const List<Slab>& list : available_[size_class].lists) {
    if (!list.empty()) return list.front();
  }
  return nullptr;
}

void Heap::charge(SizeClass size_class, size_t pages) {
  counters_.classes[size_class].charged.add(pages);
  unused_ += pages * os::page_size();
}

// Objects were handed out on pages that had no memory, `purged` or never touched. Charges them, and
// returns how many.
LOFT_NOINLINE size_t Heap::fill_pages(Slab* slab, const PageSet& gone, bool purged) {
  const size_t pages = gone.count_lost(slab->gone);
  charge(slab->size_class, pages);
  if (purged) unused::note_wanted(pages * os::page_size());
  return pages;
}

// A class that has much gets the pages of its next objects together. Not where pages were purged:
// they lie between objects, one here and one there, and each call would populate few.
// `lost` were needed.
LOFT_NOINLINE void Heap::populate(Slab* slab, const PageSet& gone, size_t lost) {
  if (slab->shape().size > prefault::kLongest) return;
  const size_t page = os::page_size();
  // Less than it has, or below zero, where slabs have come from other heaps.
  const auto before =
      static_cast<ptrdiff_t>(counters_.classes[slab->size_class].charged.get() - lost);
  if (before <= 0) return;
  const size_t count = prefault::share(static_cast<size_t>(before) * page, lost * page) / page;
  const Pages pages = gone.lost_and_next(slab->gone, static_cast<unsigned>(count));
  if (pages.first == pages.last) return;  // a fault does as well
  const size_t bytes = (size_t{pages.last} + 1 - pages.first) * page;
  if (!prefault::populate(slab->base + pages.first * page, bytes)) return;
  const PageSet now = slab->gone;
  slab->gone.remove(pages);
  slab->settled = false;  // new pages without an object; it is the first of its list
  charge(slab->size_class, now.count_lost(slab->gone));
  told_.see_more(unused_);
}

// `wanted` is not 0.
unsigned Heap::take(SizeClass size_class, void** slots, unsigned wanted) {
  ClassCounters& counters = counters_.classes[size_class];
  unsigned taken = 0;
  do {
    // A slab stays in its list until it is full or objects return: neighbours go together.
    Slab* const slab = next_slab(size_class);
    if (slab == nullptr) break;
    is_purged_.store(false, memory_order_relaxed);
    const PageSet gone = slab->gone;
    const bool purged = slab->holed;
    taken += slab->take(slots - taken, wanted - taken);
    if (LOFT_UNLIKELY(!gone.empty()) && gone.differs(slab->gone)) {
      const size_t pages = fill_pages(slab, gone, purged);
      if (!purged) populate(slab, gone, pages);
    }
    if (slab->free == 0) unlist(slab);
    slab->check();
  } while (taken != wanted);
  counters.taken.add(taken);
  const size_t bytes = taken * size_t{geometry(size_class).size};
  counters_.net_bytes.add(bytes);
  unused_ -= bytes;
  is_idle_ = false;
  return taken;
}

void* Heap::take_zero(SizeClass size_class) {
  // Returned objects are reused first.
  if (inbox_.maybe_pending()) return nullptr;
  if (LOFT_UNLIKELY(span::ticks() != last_tick_)) tick();
  if (available_[size_class].slabs == 0 && !list_new(size_class)) return nullptr;
  Slab* const slab = next_slab(size_class);
  const PageSet gone = slab->gone;
  const bool purged = slab->holed;
  void* object = slab->take_zero();
  if (object == nullptr) return nullptr;
  // Counts as a refill of one object: a thread that only calls calloc is not idle.
  ClassCounters& counters = counters_.classes[size_class];
  counters_.refills.add(1);
  counters.refills.add(1);
  fill_pages(slab, gone, purged);
  counters.taken.add(1);
  counters_.net_bytes.add(geometry(size_class).size);
  unused_ -= geometry(size_class).size;
  if (slab->free == 0) unlist(slab);
  slab->check();
  is_purged_.store(false, memory_order_relaxed);
  is_idle_ = false;
  return object;
}

// In this order: messages that the bounded drain left, a spare slab, another heap's, new memory.
unsigned Heap::refill_from_new(SizeClass size_class, void** slots, unsigned wanted) {
  if (inbox_.maybe_pending()) {
    inbox_.complete();  // the refill has drained already
    drain(kDrainBytes);
    if (const unsigned taken = take(size_class, slots, wanted); taken != 0) return taken;
  }
  return list_new(size_class) ? take(size_class, slots, wanted) : 0;
}

bool Heap::list_new(SizeClass size_class) {
  // A spare slab is preferred: sampling other heaps first cost linux-scalability with two threads
  // 1.06 times the time, because all samplers share a cursor.
  const bool has_spare = geometry(size_class).granules == 1 && spare_count_ != 0;
  if (!has_spare && take_from_others(size_class)) return true;
  Slab* slab = create(size_class);
  if (slab == nullptr) return false;
  counters_.classes[size_class].slabs_created.add(1);
  ++available_[size_class].held;
  list(slab, Fullness::kSparser);
  return true;
}

void Heap::list(Slab* slab, Fullness fullness) {
  Available& available = available_[slab->size_class];
  available.lists[static_cast<unsigned>(fullness)].push_front(slab);
  ++available.slabs;
  slab->set_list(fullness);
}

void Heap::unlist(Slab* slab) {
  Available& available = available_[slab->size_class];
  available.lists[static_cast<unsigned>(slab->list)].remove(slab);
  --available.slabs;
  slab->set_list(Fullness::kFull);
}

// Moves a slab to the list of its fullness, a settled one to the front of its own. Releases it if
// it is empty and another slab of its class can serve the next refill.
LOFT_NOINLINE void Heap::relist(Slab* slab) {
  const Fullness fullness = fullness_of(slab->free, slab->shape().objects);
  if (fullness != slab->list || slab->settled) {
    if (slab->list != Fullness::kFull) unlist(slab);
    list(slab, fullness);
  } else {
    slab->set_list(fullness);
  }
  slab->check();
  if (slab->empty() && available_[slab->size_class].slabs > 1) release(slab);
}

void Heap::release(Slab* slab) {
  unlist(slab);
  slab->set_list(Fullness::kSpare);
  counters_.classes[slab->size_class].slabs_released.add(1);
  --available_[slab->size_class].held;
  if (slab->shape().granules != 1) return destroy(&slab, 1);
  --granules_;
  if (LOFT_UNLIKELY(limits::tight())) {
    trim_spares(0);
    return destroy(&slab, 1);
  }
  // Spare slabs beyond most_kept go several at a time: a heap that shrinks meets the locks that all
  // heaps share less often.
  const unsigned most_kept = most_spares();
  const unsigned more = least(slab::kMostAtOnce, 1 + granules_ / kShareAtOnce);
  keep_spare(slab);
  if (spare_count_ >= most_kept + more) drop_spares(most_kept);
}

void Heap::keep_spare(Slab* slab) {
  spares_[spare_count_++] = {slab, slab->size_class};
  counters_.spare_bytes.add(kGranule);
}

// A processor's heap follows Hoard's emptiness threshold, with its K and f, for wholly empty slabs:
// those beyond it become free spans, open to any heap and class. Every heap keeps at most a quarter
// of what may lie free where memory is scarce.
unsigned Heap::most_spares() const {
  constexpr unsigned kCoreSpares = 4;
  constexpr unsigned kCoreShare = 4;
  constexpr size_t kScarceShare = 4;
  const auto most = static_cast<unsigned>(least(size_t{kMostSpares - slab::kMostAtOnce},
                                                limits::scarce_dirty() / kGranule / kScarceShare));
  const bool of_core = get(options.owner) == kOwnerCpu;
  return of_core ? least(most, kCoreSpares + granules_ / kCoreShare) : most;
}

void Heap::destroy(Slab* const* slabs, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    const size_t charged = slabs[i]->charged_pages();
    charge(slabs[i]->size_class, -charged);
  }
  told_.see_less(unused_);
  slab::destroy_all(slabs, count);
}

// Returns one of the last few spare slabs, as it is, if its class matches. Otherwise recuts the
// last one.
Slab* Heap::take_spare(SizeClass size_class) {
  constexpr unsigned kLooks = 8;
  unsigned chosen = spare_count_ - 1;
  bool found = false;
  for (unsigned look = 0; look < least(kLooks, spare_count_); ++look) {
    if (spares_[spare_count_ - 1 - look].size_class != size_class) continue;
    chosen = spare_count_ - 1 - look;
    found = true;
    break;
  }
  if (LOFT_UNLIKELY(free_reads_as_zero && !found)) return create_fresh(size_class);
  Slab* const slab = spares_[chosen].slab;
  spares_[chosen] = spares_[--spare_count_];
  spares_unused_ = least(spares_unused_, spare_count_);
  counters_.spare_bytes.add(-kGranule);
  const size_t charged = slab->charged_pages();
  // All of it was purged: it is as a new one again.
  if (charged == 0 && slab->holed) {
    unused::note_wanted(kGranule);
    slab->holed = false;
  }
  if (slab->size_class == size_class) return slab;
  charge(slab->size_class, -charged);
  Slab* const recut = slab::recut(slab, size_class);
  if (recut != nullptr) charge(size_class, charged);
  return recut;
}

// The bytes of a class's slabs, if they promise that the program will touch all pages of the next
// one; else 0. A heap makes a new slab when all others of the class are full. So where several
// objects share each page, all pages have memory. Longer objects may be left untouched.
size_t Heap::filled(SizeClass size_class) const {
  constexpr size_t kLeastOnPage = 4;
  if (geometry(size_class).size > os::page_size() / kLeastOnPage) return 0;
  return size_t{available_[size_class].held} * geometry(size_class).granules << kGranuleLog;
}

// A heap that has grown takes several slabs at a time, an eighth of what it has at most, and meets
// the locks that all heaps share less often. Where many heaps sleep on these locks, a small one
// takes as many.
Slab* Heap::create_fresh(SizeClass size_class) {
  const bool may_be_spare = geometry(size_class).granules == 1 && !limits::tight();
  // Few where addresses or memory are scarce: spare slabs come to lie between longer objects.
  constexpr size_t kScarceShare = 64;
  const unsigned kept = most_spares();
  const auto room = static_cast<unsigned>(
      least(size_t{least(slab::kMostAtOnce - 1, kept - least(kept, spare_count_))},
            limits::scarce_dirty() / kGranule / kScarceShare));
  const unsigned more = span::is_crowded() ? room : least(room, granules_ / kShareAtOnce);
  told_.see_less(unused_);
  Slab* slabs[slab::kMostAtOnce];
  unsigned count =
      slab::create_all(size_class, id_, slabs, may_be_spare ? 1 + more : 1, filled(size_class));
  if (count == 0) return nullptr;
  for (unsigned i = 0; i != count; ++i) charge(size_class, slabs[i]->charged_pages());
  if (count > 1) told_.see_more(unused_);  // spare slabs may stay for long
  counters_.fresh_slabs.add(1);
  // Of a row, the lowest address last: it is taken next.
  while (--count != 0) keep_spare(slabs[count]);
  return slabs[0];
}

Slab* Heap::create(SizeClass size_class) {
  if (geometry(size_class).granules != 1) {
    Slab* slab = create_fresh(size_class);
    if (slab != nullptr || spare_count_ == 0) return slab;
    trim_spares(0);
    return create_fresh(size_class);
  }
  Slab* slab = spare_count_ != 0 ? take_spare(size_class) : create_fresh(size_class);
  if (slab != nullptr) ++granules_;
  return slab;
}

// The last slab of a class stays for the next refill, even when empty. But there are dozens of
// classes, and slabs of up to 512 KiB: memory that the program no longer uses must not stay because
// other memory is in use. So a tick releases such slabs. A class that is in use pays one new slab
// per tick.
void Heap::tick() {
  last_tick_ = span::ticks();
  for (Available& available : available_) {
    if (available.slabs != 1) continue;
    Slab* slab = available.lists[static_cast<unsigned>(Fullness::kSparser)].front();
    if (slab != nullptr && slab->empty()) release(slab);
  }
  const bool plenty = spares_unused_ > granules_ / span::kPlentyShare;
  const unsigned wait = plenty ? span::kDecayTicksOfPlenty : span::kDecayTicks;
  if (last_tick_ - last_trim_ >= wait) trim_spares(spare_count_ - spares_unused_);
  counters_.hole_bytes.add(mediums_.tick(last_tick_));
}

void Heap::trim_spares(unsigned keep) {
  drop_spares(keep);
  spares_unused_ = spare_count_;
  last_trim_ = span::ticks();
}

void Heap::drop_spares(unsigned keep) {
  Slab* slabs[slab::kMostAtOnce];
  while (spare_count_ > keep) {
    const unsigned count = least(slab::kMostAtOnce, spare_count_ - keep);
    for (unsigned i = 0; i < count; ++i) slabs[i] = spares_[--spare_count_].slab;
    counters_.spare_bytes.add(-size_t{count} * kGranule);
    destroy(slabs, count);
  }
  spares_unused_ = least(spares_unused_, spare_count_);
}

size_t Heap::purge_spares(size_t most) {
  constexpr unsigned kFew = 8;
  const bool may_stay = !limits::tight() && get(options.thp) != kHugePrefer;
  drop_spares(may_stay ? kFew + granules_ / kShareAtOnce : 0);
  Holes holes(counters_.classes);
  for (unsigned i = 0; i != spare_count_ && holes.purged() < most; ++i) {
    if (spares_[i].slab->charged_pages() != 0) holes.purge(spares_[i].slab);
  }
  const size_t bytes = count(holes);
  // What the program has locked goes as a free span.
  if (holes.refused()) trim_spares(0);
  told_.see_all(unused_);
  return bytes;
}

void Heap::put_word(Slab* slab, unsigned word, uint64_t freed) {
  const size_t objects = count_bits(freed);
  is_purged_.store(false, memory_order_relaxed);
  slab->put_word(word, freed, static_cast<unsigned>(objects));
  counters_.classes[slab->size_class].put.add(objects);
  counters_.net_bytes.add(-objects * slab->shape().size);
  unused_ += objects * slab->shape().size;
  update_list(slab);
}

namespace {

// What was in a bin of this heap is in no slab of the bin's class. It was free, then: its slab was
// recut or given back.
[[noreturn]] LOFT_COLD void report_put_late(const void* p) {
  const Entry entry = pagemap.of(p);
  if (!entry.is_slab()) slab::report_without_slab(p);
  slab::report_misuse("double free of", p, slab::at(entry));
}

// Whether the first four are neighbours, upwards or downwards.
bool begins_with_run(void* const* objects, void* const* end, size_t size) {
  if (end - objects < 4) return false;
  const auto step = [&](unsigned i) {
    return reinterpret_cast<uintptr_t>(objects[i + 1]) - reinterpret_cast<uintptr_t>(objects[i]);
  };
  const uintptr_t first = step(0);
  return (first == size || first == -size) && step(1) == first && step(2) == first;
}

}  // namespace

// Puts objects back one by one. No order is assumed: what bins hold was freed all over the slabs.
// So the loop keeps the class's constants in registers, and finds with one test that owner and
// class are right. A slab of one granule need not tell where it begins.
template <bool kOneGranule>
LOFT_NOINLINE void** Heap::put_each(SizeClass size_class, void** objects, void** end) {
  const uint64_t inverse = geometry(size_class).inverse;
  const uint64_t start_limit = geometry(size_class).start_limit;
  const Entry expected(id_, bin_offset(size_class), 0);
  const Pagemap::Entries entries = pagemap.all();
  for (; objects != end; ++objects) {
    const auto p = reinterpret_cast<uintptr_t>(*objects);
    Slab* slab = nullptr;
    if (LOFT_UNLIKELY(!slab::is_like(entries.of(p), expected, slab))) break;
    const uintptr_t offset = kOneGranule ? p % kGranule : p - slab->base;
    slab->put_one(*objects, offset, inverse, start_limit, slab->summary);
    slab->take_back(1);
    update_list(slab);  // it may be gone
  }
  return objects;
}

// The same of objects of which many in a row lie in one slab. The rest goes one by one once the
// rows are short.
LOFT_NOINLINE void** Heap::put_rows(SizeClass size_class, void** objects, void** end) {
  constexpr ptrdiff_t kShort = 4;
  const Entry expected(id_, bin_offset(size_class), 0);
  unsigned short_rows = 0;
  do {
    Slab* slab = nullptr;
    if (LOFT_UNLIKELY(!slab::is_like(pagemap.of(*objects), expected, slab))) break;
    void** const first = objects;
    objects = slab->put_row(objects, end);
    update_list(slab);
    short_rows = objects - first < kShort ? short_rows + 1 : 0;
  } while (objects != end && short_rows != 3);
  return objects;
}

// The same of objects that begin with a run. Each run enters its word together. The rest goes
// one by one once the runs are short: to look for a run costs more than a run of two saves.
LOFT_NOINLINE void** Heap::put_runs(SizeClass size_class, void** objects, void** end) {
  constexpr unsigned kShort = 4;
  const Geometry& shape = geometry(size_class);
  const Entry expected(id_, bin_offset(size_class), 0);
  // A run ends with its word, so that one short run follows a long one.
  unsigned short_runs = 0;
  do {
    Slab* slab = nullptr;
    if (LOFT_UNLIKELY(!slab::is_like(pagemap.of(*objects), expected, slab))) break;
    const Product product =
        product_of(reinterpret_cast<uintptr_t>(*objects) - slab->base, shape.inverse);
    if (LOFT_UNLIKELY(!starts_in(product, shape.start_limit))) slab->report_bad_free(*objects);
    const auto object = static_cast<uint32_t>(index_in(product));
    const Run run = run_from(objects, end, object, shape);
    slab->put_word(object / 64, run.freed, run.objects);
    update_list(slab);
    objects += run.objects;
    short_runs = run.objects < kShort ? short_runs + 1 : 0;
  } while (objects != end && short_runs != 2);
  return objects;
}

// What is freed in runs mostly begins with one. (Collecting the bits of a word for one visit took
// 1.3 times as long on build-shuffle-free. Prefetching the lines of the next slabs gained nothing.)
void** Heap::put_back(SizeClass size_class, void** objects, void** end) {
  is_purged_.store(false, memory_order_relaxed);
  const Geometry& shape = geometry(size_class);
  void** const first = objects;
  if (begins_with_run(objects, end, shape.size)) objects = put_runs(size_class, objects, end);
  if (objects != end) objects = put_rows(size_class, objects, end);
  objects = LOFT_LIKELY(shape.granules == 1) ? put_each<true>(size_class, objects, end)
                                             : put_each<false>(size_class, objects, end);
  // Another heap's is the caller's to return.
  if (LOFT_UNLIKELY(objects != end) && pagemap.of(*objects).owner() == id_) {
    report_put_late(*objects);
  }
  const auto put = static_cast<size_t>(objects - first);
  const size_t bytes = put * shape.size;
  counters_.classes[size_class].put.add(put);
  counters_.net_bytes.add(-bytes);
  unused_ += bytes;
  told_.see_more(unused_);
  return objects;
}

Heap::Rest Heap::look(bool is_shared, unsigned ticks, size_t most, size_t* purged) {
  if (is_purged() && !inbox_.maybe_pending()) return Rest::kWhole;
  if (!lock_.try_lock()) return Rest::kLater;
  Rest rest = Rest::kLater;
  const bool is_abandoned = abandoned();
  // Of a heap that all threads share, medium objects do not count: programs that do little else
  // come to it for these.
  const size_t medium = is_shared ? counters_.medium_taken.get() : 0;
  if (is_abandoned || goes_on_ || refills_seen_.look(counters_.refills.get() - medium, ticks)) {
    const size_t bytes = purge(nullptr, is_abandoned ? Walk::kNowAndThen : Walk::kAtWork, most);
    *purged += bytes;
    goes_on_ = interrupted_ && bytes >= most;
    if (goes_on_) rest = Rest::kInterrupted;
  }
  lock_.unlock();
  return rest;
}

size_t Heap::purge(const os::Lock* awaited, Walk walk, size_t most) {
  const bool at_work = walk != Walk::kNow && walk != Walk::kNowAndThen;
  const bool yields = walk != Walk::kNow;
  const auto others_wait = [&] {
    return (yields && lock_.has_sleepers()) || (awaited != nullptr && awaited->has_sleepers());
  };
  if (!at_work) is_idle_ = true;
  // A thread without memory comes here with every request.
  if (is_purged() && !inbox_.maybe_pending()) return 0;
  if (!take_in(awaited) && yields) return 0;
  const uint32_t now = span::ticks();
  const bool limited = walk == Walk::kAtWork || (walk == Walk::kNowAndThen && walked_at_rest_);
  if (limited && walked_ && !goes_on_ && now - last_walk_ < span::kDecayTicks) return 0;
  walked_ = true;
  walked_at_rest_ = !at_work;
  last_walk_ = now;
  const auto clear_spares = [&] {
    if (walk == Walk::kExcess) return purge_spares(most);
    trim_spares(0);
    return size_t{0};
  };
  size_t of_spares = clear_spares();
  told_.see_less(unused_);
  const size_t gaps = mediums_.purge(MediumRuns::Round::kAll, yields ? &lock_ : nullptr, awaited,
                                     most - least(most, of_spares));
  counters_.hole_bytes.add(gaps);
  // Slabs whose holes were refused are settled, too. What was locked may be unlocked by now.
  const bool all = hole_refused_;
  const bool some_settled = interrupted_;
  Holes holes(counters_.classes);
  const auto stops = [&] { return others_wait() || of_spares + gaps + holes.purged() >= most; };
  // The round of the gaps may have ended early, and then some are left, even if no slab is.
  interrupted_ = stops();
  for (Available& available : available_) {
    for (List<Slab>& list : available.lists) {
      for (Slab* slab = list.front(); slab != nullptr && !interrupted_;) {
        Slab* const next = slab->next;
        const bool settled = slab->settled && !all;
        if (settled && !some_settled) break;
        if (!settled) {
          if (slab->empty()) {
            release(slab);
          } else if (get(options.thp) != kHugePrefer) {
            holes.purge(slab);
            slab->settle();
          }
          interrupted_ = stops();
        }
        slab = next;
      }
    }
  }
  if (!interrupted_) {
    of_spares += clear_spares();
    // The next round gives back what spare slabs stay.
    is_purged_.store(spare_count_ == 0, memory_order_relaxed);
    hole_refused_ = false;
  }
  const size_t bytes = count(holes);
  hole_refused_ |= holes.refused();
  told_.see_all(unused_);
  return of_spares + gaps + bytes;
}

size_t Heap::count(Holes& holes) {
  const size_t bytes = holes.finish();
  counters_.hole_bytes.add(bytes);
  unused_ -= bytes;
  told_.see_less(unused_);
  return bytes;
}

// Sums of a heap's counters. In debug builds, also checks of its lists and counters.

void Heap::check() const {
  if (!kDebug) return;
  for (const Available& available : available_) {
    uint32_t slabs = 0;
    for (const List<Slab>& list : available.lists) {
      bool settled = false;
      for (const Slab* slab = list.front(); slab != nullptr; slab = slab->next, ++slabs) {
        LOFT_CHECK(slab->settled || !settled || interrupted_);
        settled = slab->settled;
        LOFT_CHECK(slab->owner == id_ &&
                   &list == &available.lists[static_cast<unsigned>(slab->list)]);
        slab->check();
      }
    }
    LOFT_CHECK(slabs == available.slabs);
  }
  for (unsigned i = 0; i < spare_count_; ++i) {
    const Slab* slab = spares_[i].slab;
    LOFT_CHECK(slab->owner == id_ && slab->list == Fullness::kSpare &&
               slab->size_class == spares_[i].size_class);
    slab->check();
  }
  mediums_.check(id_);
  check_counters();
}

// Compares the counters with the bitmaps of all slabs of the heap. Full slabs are in no list, so
// the pagemap supplies them.
void Heap::check_counters() const {
  size_t allocated = 0;
  size_t charged = 0;
  size_t slabs = 0;
  size_t held = 0;
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    held += size_t{available_[c].held} * geometry(c).granules << kGranuleLog;
  }
  const uintptr_t end = pagemap.base + span::used_bytes();
  for (uintptr_t at = pagemap.base; at < end; at += kGranule) {
    const Entry entry = pagemap.of(reinterpret_cast<const void*>(at));
    if (entry.owner() != id_ || !entry.is_slab() || slab::at(entry)->base != at) continue;
    const Slab* slab = slab::at(entry);
    const Geometry& shape = slab->shape();
    allocated += (shape.objects - slab->free) * size_t{shape.size};
    charged += slab->charged_pages();
    slabs += slab->list == Fullness::kSpare ? 0 : size_t{shape.granules} << kGranuleLog;
  }
  LOFT_CHECK(counters_.allocated_bytes() == allocated);
  LOFT_CHECK(counters_.charged_pages() == charged);
  LOFT_CHECK(counters_.slab_bytes() == slabs && held == slabs);
  LOFT_CHECK(unused_ == charged * os::page_size() - allocated);
}

size_t HeapCounters::slab_bytes() const {
  size_t sum = adopted.slab_bytes.get();
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    sum += classes[c].slabs() * size_t{geometry(c).granules} << kGranuleLog;
  }
  return sum;
}

size_t HeapCounters::allocated_bytes() const {
  size_t sum = adopted.allocated_bytes.get();
  for (SizeClass c = 0; c < kSizeClasses; ++c) sum += classes[c].out() * geometry(c).size;
  return sum;
}

size_t HeapCounters::charged_pages() const {
  size_t sum = adopted.charged_pages.get();
  for (const ClassCounters& counters : classes) sum += counters.charged.get();
  return sum;
}

size_t HeapCounters::objects_received() const {
  size_t sum = 0;
  for (const ClassCounters& counters : classes) sum += counters.received.get();
  return sum;
}

}  // namespace loft
