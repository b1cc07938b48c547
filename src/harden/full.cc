#include "harden/full.h"

#include "base/bits.h"
#include "base/sealed.h"
#include "cache/arrays.h"
#include "cache/batch_cache.h"
#include "cache/bins.h"
#include "cache/object.h"
#include "front/allocate.h"
#include "front/front.h"
#include "front/modes.h"
#include "hard/before.h"
#include "hard/name.h"
#include "hard/nothing.h"
#include "hard/place.h"
#include "hard/quarantine.h"
#include "hard/secrets.h"
#include "harden/checks.h"
#include "heap/registry.h"
#include "meter/meter.h"
#include "os/fault.h"
#include "os/os.h"
#include "profile/progress.h"
#include "profile/samples.h"
#include "purge/background.h"
#include "space/span.h"
#include "thread/lifecycle.h"
#include "unwind/code.h"

namespace loft {

namespace {

using hard::Marks;

// ---- Allocation ----

// The class whose places hold such an object and its tag. kSizeClasses: none.
SizeClass class_for(Request request) {
  size_t bytes = most(request.asked + hard::kTagBytes, hard::kLeastPlace);
  if (LOFT_UNLIKELY(request.alignment_log != kAlignmentLog)) {
    bytes = round_up(bytes, size_t{1} << request.alignment_log);
  }
  return bytes <= kSmallMax ? class_of(bytes) : kSizeClasses;
}

// A free place: one of those in the thread's bin, drawn by lot.
void* draw(Thread* thread, Request request) {
  if (thread->core != nullptr || thread->mode == Mode::kUnset) {
    return ordinary_parts_of(thread).refill(thread, request);
  }
  Bin& bin = thread->bins[request.size_class];
  void* p = nullptr;
  if (*bin.top() == nullptr) {
    p = ordinary_parts_of(thread).refill(thread, request);
    if (LOFT_UNLIKELY(p == nullptr)) return nullptr;
  } else {
    p = bin.pop();
  }
  hard::Quarantine* const quarantine = hard::quarantine_of(thread);
  void** const slots = thread->states[request.size_class].slots;
  const auto left = static_cast<uint32_t>(bin.top() - slots);
  if (slots == nullptr || left == 0 || LOFT_UNLIKELY(quarantine == nullptr)) return p;
  void*& drawn = slots[1 + hard::below(&quarantine->random, left)];
  void* const chosen = drawn;
  drawn = p;
  return chosen;
}

void* refill_hardened(Thread* thread, Request request) {
  if (request.asked == 0 && request.alignment_log == kAlignmentLog) {
    if (void* const p = hard::make_nothing(); p != nullptr) return p;
  }
  const SizeClass c = class_for(request);
  if (LOFT_UNLIKELY(c == kSizeClasses)) {
    return front::in_use->allocate_long(request.asked, size_t{1} << request.alignment_log, false,
                                        request.maker);
  }
  const size_t bytes = class_size(c);
  request.size_class = static_cast<uint8_t>(c);
  void* const p = draw(thread, request);
  if (LOFT_UNLIKELY(p == nullptr)) return nullptr;
  const bool sampled = LOFT_UNLIKELY(profile::on()) && !profile::passes(bytes) &&
                       profile::note(p, request.asked, bytes, nullptr);
  return hard::hand_out(p, bytes, request.asked, request.maker, sampled);
}

// ---- free ----

// Gives a place back that may be handed out again.
void give_back(Thread* thread, void* p) {
  const Entry entry = pagemap.of(p);
  if (LOFT_UNLIKELY(thread == nullptr)) return batch_cache::send_single(p, entry);
  if (LOFT_UNLIKELY(entry.owner() != thread->owner)) {
    return ordinary_parts_of(thread).free_remote(thread, p, entry);
  }
  const SizeClass c = class_of_bin(entry.bin());
  if (LOFT_LIKELY(thread->core == nullptr && bins::has_space(thread, c))) {
    return thread->bins[c].push(p);
  }
  if (!ordinary_parts_of(thread).push(thread, c, p)) batch_cache::send_single(p, entry);
}

bool is_first(const void* p, Entry entry) {
  return reinterpret_cast<uintptr_t>(p) == slab::base_of(p, entry);
}

// Whether the program's object at p is one with a tag; or else one from before. Stops the program
// if there is none.
bool read_marks(const char* call, const void* p, Entry entry, Marks* marks) {
  check_start(call, p, entry);
  const size_t bytes = class_size(class_of_bin(entry.bin()));
  if (LOFT_LIKELY(hard::is_object(p, bytes, marks))) return true;
  if (!hard::is_from_before(p)) hard::report_none(call, p, bytes);
  return false;
}

constexpr unsigned kFreesPerLook = 8;

void free_small_hardened(void* p, Entry entry, const front::Freed& freed) {
  Marks marks;
  const bool tagged = read_marks(hard::name_of(freed), p, entry, &marks);
  if (LOFT_UNLIKELY(!tagged)) {
    // Cleared first: who frees the object behind it finds it noted, or zeros.
    __builtin_memset(p, 0, class_size(class_of_bin(entry.bin())));
    if (!hard::forget_before(p)) return front::in_use->free(p, freed);  // freed meanwhile
    return front::ordinary.free(p, freed);
  }
  const SizeClass c = class_of_bin(entry.bin());
  const size_t bytes = class_size(c);
  hard::check_fits(freed, p, marks.maker, bytes - hard::kTagBytes - marks.slack);
  if (LOFT_UNLIKELY(marks.sampled)) profile::forget(p);
  hard::take_back(hard::name_of(freed), p, bytes, marks, is_first(p, entry));
  bool is_look_due = true;
  {
    const lifecycle::SlowPath slow;
    Thread* const thread = slow.thread();
    hard::Quarantine* const quarantine = hard::quarantine_of(thread);
    void* out = p;
    if (LOFT_LIKELY(quarantine != nullptr)) {
      out = hard::exchange(quarantine, c, p);
      is_look_due = quarantine->next[c] % kFreesPerLook == 0;
    }
    if (out == nullptr) return;
    give_back(thread, out);
  }
  if (LOFT_UNLIKELY(is_look_due)) background::look_after();
}

void free_hardened(void* p, const front::Freed& freed) {
  if (p == nullptr) return;
  if (LOFT_UNLIKELY(hard::is_nothing(p))) return hard::free_nothing(hard::name_of(freed), p);
  const Entry entry = checked_entry(hard::name_of(freed), p);
  if (entry.bin() == kNothing) return;  // reported; foreign=ignore goes on
  if (LOFT_LIKELY(entry.is_slab())) return free_small_hardened(p, entry, freed);
  hard::free_long(p, entry, freed);
}

// ---- realloc, malloc_usable_size ----

size_t usable_size_hardened(const void* p) {
  if (p == nullptr) return 0;
  if (LOFT_UNLIKELY(hard::is_nothing(p))) {
    hard::check_nothing("malloc_usable_size", p);
    return 0;
  }
  const Entry entry = checked_entry("malloc_usable_size", p);
  if (entry.bin() == kNothing) return 0;
  Marks marks;
  if (!entry.is_slab()) return hard::usable_size_long(p, entry);
  if (!read_marks("malloc_usable_size", p, entry, &marks)) return front::ordinary.usable_size(p);
  return class_size(class_of_bin(entry.bin())) - hard::kTagBytes - marks.slack;
}

void* reallocate_hardened(void* p, size_t size) {
  if (LOFT_UNLIKELY(hard::is_nothing(p))) {
    hard::check_nothing("realloc", p);
    return hard::move(p, 0, size);
  }
  const Entry entry = checked_entry("realloc", p);
  if (entry.bin() == kNothing) return os::out_of_memory();
  Marks marks;
  if (!entry.is_slab()) return hard::reallocate_long(p, entry, size);
  if (!read_marks("realloc", p, entry, &marks)) {
    return hard::move(p, class_size(class_of_bin(entry.bin())), size);
  }
  const SizeClass c = class_of_bin(entry.bin());
  const size_t bytes = class_size(c);
  const size_t asked = bytes - hard::kTagBytes - marks.slack;
  hard::check_fits({false, {}, false, 0}, p, marks.maker, asked);
  const Request request = {0, kAlignmentLog, Maker::kMalloc, static_cast<uint32_t>(size)};
  if (size > kSmallMax || class_for(request) != c) {
    void* const moved = hard::move(p, asked, size);
    if (moved != nullptr || size > asked) return moved;
    // A shorter object stays where it is, if there is no memory.
  }
  hard::resize(p, bytes, size, marks);
  if (LOFT_UNLIKELY(marks.sampled)) hard::resize_sample(p, size);
  return p;
}

LOFT_SEALED constinit Parts hardened_parts[kModes]{};

// ---- Ranges ----

[[noreturn]] LOFT_COLD void report_range(const char* call, const void* p, size_t bytes,
                                         size_t before, size_t asked) {
  os::fault(Text() << call << " of " << uint64_t{bytes} << " bytes at " << p << ", "
                   << uint64_t{before} << " bytes into an object of " << uint64_t{asked});
}

void check_bounds_hardened(const char* call, const void* p, size_t bytes) {
  if (LOFT_UNLIKELY(!pagemap.contains(p))) {
    if (hard::is_nothing(p)) report_range(call, p, bytes, 0, 0);
    return;
  }
  const ObjectRange place = object_of(p);
  if (LOFT_UNLIKELY(place.start == nullptr)) return;
  const size_t before = reinterpret_cast<uintptr_t>(p) - reinterpret_cast<uintptr_t>(place.start);
  const Entry entry = pagemap.of(p);
  size_t asked = place.size;
  Marks marks;
  if (LOFT_LIKELY(entry.is_slab())) {
    if (LOFT_LIKELY(hard::is_object(place.start, place.size, &marks))) {
      asked = place.size - hard::kTagBytes - marks.slack;
    } else if (!hard::is_from_before(place.start)) {
      const Text what = Text() << call << " to or from";
      hard::report_none(what.data(), place.start, place.size);
    }
  } else if (entry.bin() == kMedium || entry.bin() == kLarge) {
    asked = hard::usable_size_long(place.start, entry);
  }
  if (LOFT_UNLIKELY(before > asked || bytes > asked - before)) {
    report_range(call, p, bytes, before, asked);
  }
}

// Of objects above kSmallMax, what stands beside them tells: their memory may be gone meanwhile.
size_t size_in_hardened(const void* p, size_t bytes) {
  const Entry entry = pagemap.of(p);
  if (!entry.is_slab()) return hard::size_in_long(p, entry, bytes);
  Marks marks;
  if (hard::is_object(p, bytes, &marks)) return bytes - hard::kTagBytes - marks.slack;
  return hard::is_from_before(p) ? bytes : 0;
}

constexpr front::Parts kHardened = {hard::allocate_long,
                                    free_hardened,
                                    reallocate_hardened,
                                    usable_size_hardened,
                                    check_bounds_hardened,
                                    size_in_hardened,
                                    true};

}  // namespace

namespace hard {

namespace {

// What is free was in use before.
void clear_free_objects() {
  for (uintptr_t at = window.heap.base; pagemap.contains(reinterpret_cast<void*>(at));
       at += kGranule) {
    const Entry entry = pagemap.of(reinterpret_cast<void*>(at));
    if (!entry.is_slab() || slab::at(entry)->base != at) continue;
    slab::at(entry)->clear_free();
  }
}

}  // namespace

const char* name_of(const front::Freed& freed) {
  if (!freed.by_delete) return freed.has_size ? "free_sized" : "free";
  switch (freed.maker) {
    case Maker::kNewAligned:
      return "delete with an alignment";
    case Maker::kNewArray:
      return "delete[]";
    case Maker::kNewArrayAligned:
      return "delete[] with an alignment";
    default:
      return "delete";
  }
}

LOFT_COLD bool has_own_operators() {
  for (const char* name : {"_Znwm", "_Znam", "_ZdlPv", "_ZdaPv"}) {
    if (unwind::is_of_another(name)) return true;
  }
  return false;
}

void check_fits(const front::Freed& freed, const void* p, Maker maker, size_t asked) {
  const Maker fitting = freed.by_delete ? freed.maker : Maker::kMalloc;
  const bool has_another_size = freed.has_size && freed.size != asked;
  if (LOFT_LIKELY(maker == fitting && !has_another_size)) return;
  // An object of no bytes may have been given one.
  if (maker == fitting && freed.size == 0 && asked == 1) return;
  if (has_own_operators()) return;
  if (maker != fitting) {
    os::fault(Text() << name_of(freed) << " of " << p << ", which " << name_of(maker) << " made");
  }
  os::fault(Text() << name_of(freed) << " of " << p << " as an object of " << uint64_t{freed.size}
                   << " bytes: it has " << uint64_t{asked});
}

void* move(void* p, size_t asked, size_t size) {
  void* const fresh = allocate(size);
  if (fresh == nullptr) return nullptr;
  __builtin_memcpy(fresh, p, least(asked, size));
  deallocate(p);
  return fresh;
}

bool begin(bool (*note)()) {
  Parts parts[kModes];
  for (unsigned mode = 0; mode < kModes; ++mode) {
    parts[mode] = ordinary_parts[mode];
    parts[mode].refill = refill_hardened;
  }
  if (!span::initialise() || !make_secrets() || !note()) return false;
  if (!write_sealed(hardened_parts, parts, sizeof parts) || !front::use(kHardened)) return false;
  close_gaps();
  registry::key_messages(kTagBytes);  // a place keeps its tag on its way
  free_reads_as_zero = true;
  clear_free_objects();
  parts_in_use.store(hardened_parts, memory_order_release);
  span::serve_nobody();
  pagemap.medium_limit.set(0);
  meter::turn_for_good(false);
  return true;
}

}  // namespace hard
}  // namespace loft
