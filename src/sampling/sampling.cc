#include "sampling/sampling.h"

#include "base/options.h"
#include "base/sealed.h"
#include "cache/medium_cache.h"
#include "cache/object.h"
#include "cache/percpu.h"
#include "files/inspect.h"
#include "heap/large.h"
#include "heap/registry.h"
#include "malloc/allocate.h"
#include "malloc/ordinary.h"
#include "malloc/policy.h"
#include "os/os.h"
#include "os/restartable.h"
#include "profile/progress.h"
#include "profile/samples.h"
#include "profile/write.h"
#include "runtime/background.h"
#include "runtime/lifecycle.h"
#include "sampling/mark.h"
#include "sampling/meter.h"

namespace loft {

LOFT_SEALED constinit MakeGuarded make_guarded = nullptr;

namespace {

size_t whole_pages(size_t size) { return round_up(size, os::page_size()); }

// Of a sampled object.
size_t bytes_at(const void* p) {
  const Entry entry = pagemap.of(p);
  return entry.bin() == kLarge ? large::at(entry)->bytes : medium::run_at(entry)->bytes_of(p);
}

// Once a profile was taken, the tables of a block may lag behind what is said of it, so that the
// bin is not what the thread found empty. (Without a block, `thread` is the stand-in.)
void* refill_lagging(ThreadCache* thread, ObjectRequest request) {
  const SizeClass c = request.size_class;
  if (percpu::in_use()) {
    if (void* const popped = os::pop(bin_offset(c)); popped != nullptr)
      return sampling::unmark(popped);
  } else if (Bin& bin = thread->bins[c]; *bin.top() != nullptr) {
    void* const popped = bin.pop();
    sampling::settle(thread, c);
    return sampling::unmark(popped);
  }
  return sampling::unmark(core_policy_of(thread).refill(thread, request));
}

// Takes more objects of a class of which few go round.
void gather(ThreadCache* thread, ObjectRequest request) {
  Bin& bin = thread->bins[request.size_class];
  void* few[sampling::kMostShort + 1];
  unsigned count = 0;
  while (*bin.top() != nullptr) few[count++] = bin.pop();
  void* const p = core_policy_of(thread).refill(thread, request);
  if (p != nullptr) few[count++] = p;
  while (count != 0) sampling::put_back(thread, request.size_class, few[--count]);
}

sampling::Filled fill(ThreadCache* thread, ObjectRequest request) {
  const SizeClass c = request.size_class;
  // A processor's bins are not the caller's until it has closed their stacks.
  if (thread->mode == Mode::kUnset || thread->processor != nullptr)
    return sampling::Filled::kNothing;
  sampling::settle(thread, c);
  if (sampling::is_due(thread, c)) return sampling::Filled::kDue;
  if (bins::held(thread, c, thread->bins[c].top()) < sampling::short_of(c)) gather(thread, request);
  return sampling::fill(thread, c);
}

// A charge for an object that a path takes by itself. Not passed: a sample falls on it, and the
// ordinary path, which samples, is to be taken.
class Charge {
 public:
  explicit Charge(size_t bytes)
      : bytes_(LOFT_UNLIKELY(profile::on()) ? bytes : 0),
        passes_(bytes_ == 0 || profile::passes(bytes_)) {}
  bool passes() const { return passes_; }
  // Returns the object, and takes the charge back if there is none.
  void* for_what_is(void* object) const {
    if (object == nullptr && bytes_ != 0) profile::give_back(bytes_);
    return object;
  }

 private:
  size_t bytes_;
  bool passes_;
};

// An object between guards on which a sample has fallen, for the profile, too.
void* take_guarded(ObjectRequest request) {
  void* const p = make_guarded(request.asked, size_t{1} << request.alignment_log, request.maker);
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
void* take_sampled(ThreadCache* thread, ObjectRequest request) {
  if (LOFT_UNLIKELY(make_guarded != nullptr)) {
    if (void* const p = take_guarded(request); p != nullptr) return p;
    if (!profile::on()) {
      profile::draw();
      return nullptr;
    }
  }
  void* const kept =
      get(options.profile) == kProfileWaste ? refill_lagging(thread, request) : nullptr;
  void* const sampled = profile::allocate(request.asked, size_t{1} << request.alignment_log,
                                          class_size(request.size_class), false, kept);
  if (LOFT_LIKELY(sampled != nullptr)) lifecycle::count_net(bytes_at(sampled));
  return LOFT_LIKELY(sampled != nullptr) ? sampled : kept;
}

}  // namespace

void* refill_sampled(ThreadCache* thread, ObjectRequest request) {
  const SizeClass c = request.size_class;
  const sampling::Filled filled = fill(thread, request);
  if (LOFT_LIKELY(filled == sampling::Filled::kYes)) return sampling::pop(thread, c);
  if (filled == sampling::Filled::kDue || !profile::passes(class_size(c))) {
    void* const sampled = take_sampled(thread, request);
    if (LOFT_LIKELY(sampled != nullptr)) return sampled;
  }
  return refill_lagging(thread, request);
}

namespace {

void* refill_metered(ThreadCache* thread, ObjectRequest request) {
  return LOFT_LIKELY(sampling::is_turned()) ? refill_sampled(thread, request)
                                            : refill_lagging(thread, request);
}

// Made when the first profile is: most programs take none.
const Policies& metered_policies() {
  static const struct Metered {
    Policies rows = core_policies;
    Metered() {
      for (Policy& row : rows.of) {
        sample_in(&row);
        row.refill = refill_metered;
      }
    }
  } metered;
  return metered.rows;
}

}  // namespace

void follow_profile_options() {
  const bool asked = get(options.profile) != kNoProfile;
  if (asked == profile::on() && !profile::changes_mean(get(options.sample_bytes))) return;
  // Before the lock: it takes the loader's, whose holder may be forking.
  if (asked) inspect::open();
  const os::Guard guard(profile::changes());
  // Who has set it meanwhile comes here, too, prepared.
  if (!asked && get(options.profile) != kNoProfile) return;
  profile::set_mean(get(options.sample_bytes));
  const bool is_core = get(options.hardened) == kHardenedOff;
  const bool wanted = get(options.profile) != kNoProfile && profile::prepare() &&
                      (!is_core || use(metered_policies()));
  if (wanted == profile::on()) return;
  profile::is_on.store(wanted, memory_order_relaxed);
  // In the hardened modes, each allocation that may be a sample takes a slow path as it is.
  if (!is_core) return;
  pagemap.medium_page.set(wanted ? 0 : os::page_size());
  sampling::turn_all(wanted);
}

bool sample_by(MakeGuarded make) { return write_sealed(&make_guarded, &make, sizeof(uintptr_t)); }

void sample_for_good() {
  profile::set_mean(get(options.sample_bytes));
  sampling::turn_for_good(true);
}

namespace {

void* take_zero_metered(ObjectRequest request) {
  const Charge charge(class_size(request.size_class));
  return charge.passes() ? charge.for_what_is(take_zero_ordinary(request)) : nullptr;
}

void mark_sampled(void* object, size_t asked) {
  const Entry entry = pagemap.of(object);
  if (entry.bin() != kLarge) return;
  large::at(entry)->sampled = true;
  profile::note(object, asked, whole_pages(asked));
}

void* allocate_long_metered(size_t size, size_t alignment, bool zeroed, Maker) {
  const bool passes = !profile::on() || profile::passes(whole_pages(size));
  if (LOFT_UNLIKELY(!passes) && is_medium(size) && alignment <= os::page_size()) {
    void* const p = profile::allocate(size, alignment, whole_pages(size), zeroed);
    if (LOFT_LIKELY(p != nullptr)) lifecycle::count_net(bytes_at(p));
    if (LOFT_LIKELY(p != nullptr)) return p;
  }
  void* const object = allocate_large(size, alignment, zeroed);
  if (!passes && object != nullptr) mark_sampled(object, size);
  return object;
}

// As an object that is not sampled keeps its place and its charge: one in a slab while it fits and
// fills half of it; a medium one while it does not grow. One that has shrunk grows again where the
// pages behind it are still free. False: the caller copies it, as a new one.
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
  bool is_resized = false;
  {
    Heap* const heap = registry::at(entry.owner());
    const os::Guard guard(heap->lock());
    is_resized = heap->resize_medium(p, size);
  }
  if (LOFT_UNLIKELY(!is_resized)) {
    profile::put_back(sample, p, true);
    return false;
  }
  lifecycle::count_net(bytes_at(p) - before);
  profile::put_down(sample, p, size, charged);
  return true;
}

void free_sampled(void* p, Entry entry) {
  if (medium_cache::mark(p, entry) == nullptr) return;  // reported
  lifecycle::count_net(-bytes_at(p));
  void* const kept = profile::forget(p);
  profile::release(p);
  if (LOFT_UNLIKELY(kept != nullptr)) deallocate(kept);
  background::look_after();
}

// Where it grows, it may be due for a sample: only as a new object.
bool grow_in_run(void* p, Entry entry, size_t size, size_t more) {
  const Charge charge(more);
  return charge.passes() && charge.for_what_is(resize_in_run(p, entry, size) ? p : nullptr);
}

void* reallocate_medium_metered(void* p, Entry entry, size_t usable, size_t size) {
  if (is_medium(size) && grow_in_run(p, entry, size, size - usable)) return p;
  void* fresh = nullptr;
  if (const Charge charge(whole_pages(size)); is_medium(size) && charge.passes()) {
    fresh = charge.for_what_is(allocate_with_room(size));
  }
  if (fresh == nullptr) return reallocate_by_copy(p, usable, size);
  __builtin_memcpy(fresh, p, usable);
  deallocate(p);
  return fresh;
}

void* resize_large_metered(Large* object, size_t size, ResizeLarge how) {
  const size_t before = object->bytes;
  profile::Sample* const sample =
      object->sampled ? profile::lift(reinterpret_cast<const void*>(object->base)) : nullptr;
  profile::tell_of_end(sample);
  void* const resized = resize_large_ordinary(object, size, how);
  profile::put_down(sample, reinterpret_cast<const void*>(object->base), object->asked,
                    object->bytes);
  if (resized == nullptr || object->sampled || !profile::on()) return resized;
  if (object->bytes <= before) return resized;
  if (!profile::passes(object->bytes - before)) mark_sampled(resized, size);
  return resized;
}

// The core's functions report what is wrong with an address.
Entry entry_of(const void* p) { return pagemap.contains(p) ? pagemap.of(p) : Entry{}; }

// Whether the program has a medium one that begins at p.
bool is_medium_object(const void* p, Entry entry) {
  return entry.bin() == kMedium && medium::run_at(entry)->in_use_at(p);
}

Large* large_at(Entry entry) { return entry.bin() == kLarge ? large::at(entry) : nullptr; }

}  // namespace

void free_metered(void* p) {
  const Entry entry = entry_of(p);
  if (medium::is_sampled(entry)) return free_sampled(p, entry);
  if (Large* const object = large_at(entry); object != nullptr && object->sampled) {
    check_start("free", p, entry);
    forget_large(object);
  }
  free_ordinary(p);
}

void* reallocate_metered(void* p, size_t size) {
  const Entry entry = entry_of(p);
  if (!is_medium_object(p, entry)) return reallocate_ordinary(p, size);
  const size_t usable = medium::usable_bytes(entry, p);
  if (medium::is_sampled(entry)) {
    return resize_sampled(p, entry, size) ? p : reallocate_by_copy(p, usable, size);
  }
  return size > usable ? reallocate_medium_metered(p, entry, usable, size)
                       : reallocate_ordinary(p, size);
}

bool expand_metered(const char* call, void* p, size_t size) {
  const Entry entry = entry_of(p);
  if (!is_medium_object(p, entry)) return expand_ordinary(call, p, size);
  if (medium::is_sampled(entry)) return resize_sampled(p, entry, size);
  const size_t usable = medium::usable_bytes(entry, p);
  if (size <= usable) return expand_ordinary(call, p, size);
  return is_medium(size) && grow_in_run(p, entry, size, size - usable);
}

void write_refused(size_t) {
  if (profile::prepared()) profile::write_refused();
}

void sample_in(Policy* row) {
  row->take_zero = take_zero_metered;
  row->allocate_long = allocate_long_metered;
  row->free = free_metered;
  row->reallocate = reallocate_metered;
  row->expand = expand_metered;
  row->resize_large = resize_large_metered;
  row->on_refused = write_refused;
}

void forget_large(Large* object) {
  object->sampled = false;
  void* const kept = profile::forget(reinterpret_cast<const void*>(object->start()));
  if (LOFT_UNLIKELY(kept != nullptr)) deallocate(kept);
}

namespace {

void review(ThreadCache* thread) {
  sampling::settle(thread, 0);
  if (!sampling::is_turned()) sampling::empty(thread);
}

size_t held(const ThreadCache* thread, SizeClass c) { return sampling::held(thread, c); }

void visit_held(const ThreadCache* thread, void (*visit)(void* context, const void* p),
                void* context) {
  for (SizeClass c = 0; c < kSizeClasses; ++c) sampling::visit(thread, c, visit, context);
}

// Who switches the profile takes the locks of heaps.
void lock(LockStep step) {
  step == LockStep::kBeforeBlocks ? profile::changes().lock() : profile::prepare_fork();
}

void unlock(LockStep step, bool child) {
  step == LockStep::kBeforeBlocks ? profile::changes().after_fork(child)
                                  : profile::finish_fork(child);
}

}  // namespace

// Second bins of a thread that a fork's child lacks are emptied with its ordinary ones
// (bins::inherit).
constinit const Guest sampling_guest = {
    .join = sampling::join,
    .review = review,
    .empty = sampling::empty,
    .held = held,
    .visit_held = visit_held,
    .lock = lock,
    .unlock = unlock,
};

}  // namespace loft
