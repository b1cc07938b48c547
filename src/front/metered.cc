#include "front/metered.h"

#include "base/options.h"
#include "cache/medium_cache.h"
#include "cpu/core.h"
#include "files/inspect.h"
#include "front/allocate.h"
#include "front/modes.h"
#include "hard/mark.h"
#include "hard/samples.h"
#include "heap/registry.h"
#include "large/large.h"
#include "meter/meter.h"
#include "os/os.h"
#include "os/restartable.h"
#include "profile/samples.h"
#include "purge/background.h"
#include "thread/lifecycle.h"

namespace loft {

namespace {

size_t whole_pages(size_t size) { return round_up(size, os::page_size()); }

// Of a sampled object.
size_t bytes_at(const void* p) {
  const Entry entry = pagemap.of(p);
  return entry.bin() == kLarge ? large::at(entry)->bytes : medium::run_at(entry)->bytes_of(p);
}

// Once a profile was taken, the tables of a block may lag behind what is said of it, so that the
// bin is not what the thread found empty. (Without a block, `thread` is the stand-in.)
void* refill_lagging(Thread* thread, Request request) {
  const SizeClass c = request.size_class;
  if (core::in_use()) {
    if (void* const popped = os::pop(bin_offset(c)); popped != nullptr) return hard::unmark(popped);
  } else if (Bin& bin = thread->bins[c]; *bin.top() != nullptr) {
    void* const popped = bin.pop();
    meter::settle(thread, c);
    return hard::unmark(popped);
  }
  return hard::unmark(ordinary_parts_of(thread).refill(thread, request));
}

// Takes more objects of a class of which few go round.
void gather(Thread* thread, Request request) {
  Bin& bin = thread->bins[request.size_class];
  void* few[meter::kMostShort + 1];
  unsigned count = 0;
  while (*bin.top() != nullptr) few[count++] = bin.pop();
  void* const p = ordinary_parts_of(thread).refill(thread, request);
  if (p != nullptr) few[count++] = p;
  while (count != 0) meter::put_back(thread, request.size_class, few[--count]);
}

meter::Filled fill(Thread* thread, Request request) {
  const SizeClass c = request.size_class;
  // A processor's bins are not the caller's until it has closed their stacks.
  if (thread->mode == Mode::kUnset || thread->core != nullptr) return meter::Filled::kNothing;
  meter::settle(thread, c);
  if (meter::is_due(thread, c)) return meter::Filled::kDue;
  if (bins::held(thread, c, thread->bins[c].top()) < meter::short_of(c)) gather(thread, request);
  return meter::fill(thread, c);
}

// An object between guards on which a sample has fallen, for the profile, too.
void* take_guarded(Request request) {
  void* const p =
      hard::make_sample(request.asked, size_t{1} << request.alignment_log, request.maker);
  if (p == nullptr) return nullptr;
  lifecycle::count_net(large::at(pagemap.of(p))->bytes);
  if (LOFT_UNLIKELY(profile::on())) {
    large::at(pagemap.of(p))->sampled =
        profile::note(p, request.asked, class_size(request.size_class));
  } else {
    profile::draw();
  }
  return p;
}

// An object on which a sample has fallen. If waste is to be counted, its ordinary place is taken,
// too, and kept for as long as the object lives: its heap is then as it would be without the
// sample. The caller may hold a processor's block (owner=cpu), so that nothing is freed here.
void* take_sampled(Thread* thread, Request request) {
  if (LOFT_UNLIKELY(hard::takes_samples())) {
    if (void* const p = take_guarded(request); p != nullptr) return p;
    if (!profile::on()) {
      profile::draw();
      return nullptr;
    }
  }
  void* const place =
      get(options.profile) == kProfileWaste ? refill_lagging(thread, request) : nullptr;
  void* const sampled = profile::allocate(request.asked, size_t{1} << request.alignment_log,
                                          class_size(request.size_class), false, place);
  if (LOFT_LIKELY(sampled != nullptr)) lifecycle::count_net(bytes_at(sampled));
  return LOFT_LIKELY(sampled != nullptr) ? sampled : place;
}

void* refill_metered(Thread* thread, Request request) {
  const SizeClass c = request.size_class;
  const meter::Filled filled = fill(thread, request);
  if (LOFT_LIKELY(filled == meter::Filled::kYes)) return meter::pop(thread, c);
  if (filled == meter::Filled::kDue || !profile::passes(class_size(c))) {
    void* const sampled = take_sampled(thread, request);
    if (LOFT_LIKELY(sampled != nullptr)) return sampled;
  }
  return refill_lagging(thread, request);
}

// Parts with another refill, which are made before they are in use.
struct PartsWith {
  explicit PartsWith(void* (*refill)(Thread*, Request)) {
    for (unsigned mode = 0; mode < kModes; ++mode) {
      of[mode] = ordinary_parts[mode];
      of[mode].refill = refill;
    }
  }
  Parts of[kModes];
};

bool guards() { return get(options.hardened) == kHardenedGuard; }

const Parts* metered_parts() {
  static const PartsWith metered(refill_metered);
  return metered.of;
}

// Under the lock of the changes.
void turn_blocks(bool wanted) {
  static const PartsWith lagging(refill_lagging);
  // Release: with another thread's table in hand, or without, who finds these finds them made.
  parts_in_use.store(wanted ? metered_parts() : lagging.of, memory_order_release);
  meter::turn_all(wanted);
}

}  // namespace

void follow_profile_options() {
  const bool asked = get(options.profile) != kNoProfile;
  if (asked == profile::on() && !profile::changes_mean(get(options.sample_bytes))) return;
  // Before the lock: it takes the loader's, whose holder may be forking.
  if (asked) inspect::open();
  const os::Guard guard(profile::changes());
  profile::set_mean(get(options.sample_bytes));
  const bool wanted = get(options.profile) != kNoProfile && profile::prepare();
  if (wanted == profile::on()) return;
  profile::is_on.store(wanted, memory_order_relaxed);
  // With hardened=full, each allocation takes a slow path that samples.
  if (get(options.hardened) == kHardenedFull) return;
  pagemap.medium_limit.set(wanted ? 0 : kMediumMax + 1);
  if (!guards()) turn_blocks(wanted);
}

void meter_for_good() {
  profile::set_mean(get(options.sample_bytes));
  parts_in_use.store(metered_parts(), memory_order_release);
  meter::turn_for_good(true);
}

void* sample_long(size_t size, size_t alignment, bool zeroed, bool* is_due) {
  const size_t bytes = whole_pages(size);
  if (profile::passes(bytes)) return nullptr;
  if (is_medium(size) && alignment <= os::page_size()) {
    void* const p = profile::allocate(size, alignment, bytes, zeroed);
    if (LOFT_LIKELY(p != nullptr)) lifecycle::count_net(bytes_at(p));
    return p;
  }
  *is_due = true;
  return nullptr;
}

void mark_sampled(void* object, size_t asked) {
  const Entry entry = pagemap.of(object);
  if (entry.bin() != kLarge) return;
  large::at(entry)->sampled = true;
  profile::note(object, asked, whole_pages(asked));
}

// As an object that is not sampled keeps its place and its charge: one in a slab while it fits and
// fills half of it; a medium one while it does not grow.
bool resize_sampled(void* p, Entry entry, size_t size) {
  profile::Sample* const sample = profile::lift(p);
  const size_t charged = profile::charged_of(sample);
  const bool stays =
      size <= charged && (size >= charged / 2 || (is_medium(charged) && is_medium(size)));
  if (!stays) {
    profile::put_back(sample, p, false);
    return false;
  }
  profile::tell_of_end(sample);
  const size_t before = bytes_at(p);
  {
    Heap* const heap = registry::at(entry.owner());
    const os::Guard guard(heap->lock());
    heap->resize_medium(p, size);  // it does not grow
  }
  lifecycle::count_net(bytes_at(p) - before);
  profile::put_down(sample, p, size, charged);
  return true;
}

void free_sampled(void* p, Entry entry) {
  if (medium_cache::mark(p, entry) == nullptr) return;  // reported
  lifecycle::count_net(-bytes_at(p));
  void* const place = profile::forget(p);
  profile::release(p);
  if (LOFT_UNLIKELY(place != nullptr)) deallocate(place);
  background::look_after();
}

void forget_large(Large* object) {
  object->sampled = false;
  void* const place = profile::forget(reinterpret_cast<const void*>(object->start()));
  if (LOFT_UNLIKELY(place != nullptr)) deallocate(place);
}

void* resize_metered(Large* object, size_t asked, void* (*how)(Large* object, size_t asked)) {
  const size_t before = object->bytes;
  profile::Sample* const sample =
      object->sampled ? profile::lift(reinterpret_cast<const void*>(object->base)) : nullptr;
  profile::tell_of_end(sample);
  void* const resized = how(object, asked);
  profile::put_down(sample, reinterpret_cast<const void*>(object->base), object->asked,
                    object->bytes);
  if (resized == nullptr || object->sampled || !profile::on()) return resized;
  if (object->bytes <= before) return resized;
  if (!profile::passes(object->bytes - before)) mark_sampled(resized, asked);
  return resized;
}

}  // namespace loft
