#include "hardened/modes.h"

#include "base/bits.h"
#include "base/sealed.h"
#include "cache/arrays.h"
#include "cache/batch_cache.h"
#include "cache/bins.h"
#include "cache/object.h"
#include "hardened/before.h"
#include "hardened/cell.h"
#include "hardened/checks.h"
#include "hardened/quarantine.h"
#include "hardened/secrets.h"
#include "heap/registry.h"
#include "malloc/allocate.h"
#include "malloc/ordinary.h"
#include "malloc/policy.h"
#include "os/fault.h"
#include "os/os.h"
#include "profile/progress.h"
#include "profile/samples.h"
#include "runtime/background.h"
#include "runtime/lifecycle.h"
#include "sampling/meter.h"
#include "sampling/sampling.h"
#include "space/span.h"

namespace loft {

namespace {

using hardened::Marks;

// ---- Allocation ----

// Free cells that a refill has brought come in the order of their addresses: draws one of them and
// `p` by lot, and the order of the others. What comes out of the quarantine was drawn there.
void* shuffle(ThreadCache* thread, SizeClass c, void* p) {
  hardened::Quarantine* const quarantine = hardened::quarantine_of(thread);
  void** const slots = thread->states[c].slots;
  if (slots == nullptr || LOFT_UNLIKELY(quarantine == nullptr)) return p;
  // The bin is empty meanwhile, for the child of a fork: it is to lose objects, not to have one
  // twice.
  Bin& bin = thread->bins[c];
  void** const top = bin.top();
  bin.set_top(slots);
  for (auto left = static_cast<uint32_t>(top - slots); left != 0; --left) {
    const uint32_t drawn = hardened::below(&quarantine->random, left + 1);
    void*& cell = drawn == 0 ? p : slots[drawn];
    void* const last = slots[left];
    slots[left] = cell;
    cell = last;
  }
  bin.set_top(top);
  return p;
}

// A free cell.
LOFT_NOINLINE void* draw(ThreadCache* thread, ObjectRequest request) {
  const bool own = thread->processor == nullptr && thread->mode != Mode::kUnset;
  Bin& bin = thread->bins[request.size_class];
  if (own && *bin.top() != nullptr) return bin.pop();
  void* const p = core_policy_of(thread).refill(thread, request);
  return own && p != nullptr ? shuffle(thread, request.size_class, p) : p;
}

LOFT_NOINLINE void* hand_out_any(void* p, SizeClass c, ObjectRequest request) {
  const size_t bytes = class_size(c);
  const bool sampled =
      profile::on() && !profile::passes(bytes) && profile::note(p, request.asked, bytes, nullptr);
  return hardened::hand_out(p, bytes, request.asked, request.maker, sampled);
}

// Whatever refill_hardened is not made for.
LOFT_NOINLINE void* refill_otherwise(ThreadCache* thread, ObjectRequest request) {
  if (request.asked == 0 && request.alignment_log == kAlignmentLog) {
    if (void* const p = hardened::make_nothing(); p != nullptr) return p;
  }
  const SizeClass c = hardened::class_for(request);
  if (LOFT_UNLIKELY(c == kSizeClasses)) {
    // With a processor's block in hand, it is the second try, and takes no lock twice. The first
    // one has reclaimed what there was.
    if (thread->processor != nullptr) return nullptr;
    return policy().allocate_long(request.asked, size_t{1} << request.alignment_log, false,
                                  request.maker);
  }
  request.size_class = static_cast<uint8_t>(c);
  void* const p = draw(thread, request);
  return LOFT_LIKELY(p != nullptr) ? hand_out_any(p, c, request) : nullptr;
}

// Of a thread's own block.
template <bool kFew>
LOFT_ALWAYS_INLINE void* pop_and_hand_out(ThreadCache* thread, SizeClass c, ObjectRequest request) {
  Bin& bin = thread->bins[c];
  void** const top = bin.top();
  void* const p = *top;
  if (LOFT_UNLIKELY(p == nullptr)) return refill_otherwise(thread, request);
  bin.pop_from(top);
  if (LOFT_UNLIKELY(profile::on())) return hand_out_any(p, c, request);
  const size_t bytes = kFew ? (c + 1) * kMinObject : geometry(c).size;
  return hardened::hand_out<kFew>(p, bytes, request.asked, request.maker, false);
}

LOFT_NOINLINE void* refill_with_many(ThreadCache* thread, ObjectRequest request) {
  if (LOFT_UNLIKELY(request.asked - 1u >= hardened::kMostTagged)) {
    return refill_otherwise(thread, request);
  }
  return pop_and_hand_out<false>(thread, class_of(request.asked + hardened::kTagBytes), request);
}

void* refill_hardened(ThreadCache* thread, ObjectRequest request) {
  if (LOFT_UNLIKELY(request.alignment_log != kAlignmentLog)) {
    return refill_otherwise(thread, request);
  }
  // class_of of what needs at most kMostFew bytes.
  static_assert(hardened::kMostFew <= kLinearClasses * kMinObject && hardened::kLeastPlace == 32);
  if (request.asked - 1u >= hardened::kMostFew - hardened::kTagBytes) {
    return refill_with_many(thread, request);
  }
  const SizeClass c = (request.asked + unsigned{hardened::kTagBytes} - 1) / unsigned{kMinObject};
  return pop_and_hand_out<true>(thread, c + (c == 0), request);
}

// ---- free ----

// Gives a cell back that may be handed out again. The bin is full, if it is the thread's own.
LOFT_NOINLINE void give_back(ThreadCache* thread, void* p) {
  const Entry entry = pagemap.of(p);
  if (LOFT_UNLIKELY(thread == nullptr)) return batch_cache::send_single(p, entry);
  if (LOFT_UNLIKELY(entry.owner() != thread->owner)) {
    return core_policy_of(thread).free_remote(thread, p, entry);
  }
  const SizeClass c = class_of_bin(entry.bin());
  if (!core_policy_of(thread).push(thread, c, p)) batch_cache::send_single(thread, p, entry);
}

constexpr unsigned kFreesPerLook = 8;

// Passes a cleared cell to the quarantine. The thread may have no block, or none of its own.
LOFT_NOINLINE void retire_otherwise(void* p, SizeClass c) {
  bool is_look_due = true;
  {
    const lifecycle::SlowPath slow;
    ThreadCache* const thread = slow.thread();
    hardened::Quarantine* const quarantine = hardened::quarantine_of(thread);
    void* out = p;
    if (LOFT_LIKELY(quarantine != nullptr)) {
      hardened::Quarantine::Class& of = quarantine->of[c];
      out = hardened::exchange(quarantine, of, p, hardened::key_of(p));
      is_look_due = of.next % kFreesPerLook == 0;
    }
    if (out == nullptr) return;
    give_back(thread, out);
  }
  if (LOFT_UNLIKELY(is_look_due)) background::look_after();
}

// Objects with a sample, from before, the first ones of a slab, and what is none.
LOFT_NOINLINE void free_otherwise(void* p, Entry entry, Freed freed) {
  const char* const call = hardened::name_of(freed);
  Marks marks;
  if (LOFT_UNLIKELY(!hardened::read_marks(call, p, entry, &marks))) {
    // Cleared first: who frees the object behind it finds it noted, or zeros.
    __builtin_memset(p, 0, class_size(class_of_bin(entry.bin())));
    if (!hardened::forget_before(p)) return policy().free_as(p, freed);  // freed meanwhile
    return core_policy().free(p);
  }
  const SizeClass c = class_of_bin(entry.bin());
  const size_t bytes = class_size(c);
  hardened::check_fits(freed, p, marks.maker, bytes - hardened::kTagBytes - marks.slack);
  if (LOFT_UNLIKELY(marks.sampled)) profile::forget(p);
  hardened::take_back(call, p, bytes, marks,
                      reinterpret_cast<uintptr_t>(p) == slab::base_of(p, entry));
  retire_otherwise(p, c);
}

LOFT_NOINLINE void free_elsewhere(void* p, Freed freed) {
  if (p == nullptr) return;
  if (LOFT_UNLIKELY(hardened::is_nothing(p)))
    return hardened::free_nothing(hardened::name_of(freed), p);
  const Entry entry = checked_entry(hardened::name_of(freed), p);
  if (entry.bin() == kNothing) return;  // reported; misuse=continue goes on
  if (entry.is_slab()) return free_otherwise(p, entry, freed);
  hardened::free_long(p, entry, freed);
}

// The common case in one piece: an object without a sample, of a thread that has its own block. All
// calls are tail calls, so that no register is saved. A plain one is a call of free.
//
// A tag says that an object starts at p: it is bound to the address. So nobody asks where the slab
// begins, unless p is the first of its granule, or the tag may lie in another one.
template <bool kFew, bool kPlain>
LOFT_ALWAYS_INLINE void free_own(void* p, uint16_t bin, Freed freed) {
  ThreadCache* const thread = this_thread();
  hardened::Quarantine* const quarantine = thread->quarantine;
  if (LOFT_UNLIKELY(quarantine == nullptr)) return free_elsewhere(p, freed);
  hardened::Quarantine::Class& of = hardened::class_at(quarantine, bin);
  const size_t in_granule = reinterpret_cast<uintptr_t>(p) % kGranule;
  if (LOFT_UNLIKELY(in_granule - 1 >= of.room)) return free_elsewhere(p, freed);
  const size_t bytes = of.bytes;
  const uint64_t key = hardened::key_of(p);
  unsigned char* const end = hardened::tag_at(p, bytes);
  // Nobody has looked yet whether p is aligned. If it is an object's, the tag is this thread's.
  const uint64_t note = hardened::note_in(key, hardened::load_bytes(end));
  // All of the note but the slack: it is an object's, without a sample, and of this maker.
  const uint64_t fitting = kPlain ? uint64_t{0} : static_cast<uint8_t>(freed.maker);
  if (LOFT_UNLIKELY(note >> hardened::kMakerShift != fitting)) return free_elsewhere(p, freed);
  const size_t slack = note & hardened::kSlackMask;
  if (!kPlain && freed.has_size &&
      LOFT_UNLIKELY(freed.size + slack + hardened::kTagBytes != bytes)) {
    return free_elsewhere(p, freed);
  }
  if (LOFT_UNLIKELY(!hardened::is_fence_whole(end, slack, hardened::fence_for(key))) ||
      LOFT_UNLIKELY(!hardened::is_tagged_before(p, key, of.step))) {
    return free_elsewhere(p, freed);
  }
  hardened::clear_cell<kFew>(p, bytes, key);
  const uint32_t turn = of.next;
  void* const out = hardened::exchange(quarantine, of, p, key);
  if (LOFT_UNLIKELY(out == nullptr)) return;
  Bin& to = *thread->bin_at(bin);
  if (LOFT_UNLIKELY(pagemap.of(out).owner() != thread->owner || to.top() >= to.limit())) {
    return give_back(thread, out);
  }
  to.push(out);
  if (LOFT_UNLIKELY(turn % kFreesPerLook == 0)) background::look_after();
}

template <bool kPlain>
LOFT_NOINLINE void free_many(void* p, Freed freed) {
  const uint64_t position = pagemap.position(p);
  if (LOFT_LIKELY(pagemap.limit.contains(position))) {
    const Entry entry = pagemap.at_position(position);
    if (LOFT_LIKELY(entry.is_slab())) return free_own<false, kPlain>(p, entry.bin(), freed);
  }
  free_elsewhere(p, freed);
}

// Classes whose cells have at most kMostFew bytes.
constexpr unsigned kFewBins = hardened::kMostFew / kMinObject * kBinBytes;
static_assert(class_size(hardened::kMostFew / kMinObject - 1) == hardened::kMostFew);

template <bool kPlain>
LOFT_ALWAYS_INLINE void free_by(void* p, Freed freed) {
  const uint64_t position = pagemap.position(p);
  if (LOFT_LIKELY(pagemap.limit.contains(position))) {
    const uint16_t bin = pagemap.at_position(position).bin();
    if (LOFT_LIKELY(unsigned{bin} - kFirstBinOffset < kFewBins)) {
      return free_own<true, kPlain>(p, bin, freed);
    }
  }
  free_many<kPlain>(p, freed);
}

void free_hardened(void* p) { free_by<true>(p, {}); }
void free_hardened_as(void* p, Freed freed) { free_by<false>(p, freed); }

LOFT_SEALED constinit Policies full_policies{};

bool is_object(const void* p) { return hardened::is_nothing(p) || core_policy().is_object(p); }

// Each object reads as zero.
void* take_no_zero(ObjectRequest) { return nullptr; }

// Those from before, which no guards are around, give way to one with guards.
void* resize_no_large(Large*, size_t, ResizeLarge) { return nullptr; }

Policies make_policies() {
  Policies made = core_policies;
  for (unsigned mode = 0; mode < kModes; ++mode) {
    Policy& row = made.of[mode];
    const bool own = mode != static_cast<unsigned>(Mode::kProcessors);
    row.refill = own ? refill_hardened : refill_otherwise;
    row.take_zero = take_no_zero;
    row.allocate_long = hardened::allocate_long;
    row.is_object = is_object;
    row.resize_large = resize_no_large;
    row.on_refused = write_refused;
    row.free = free_hardened;
    row.free_as = free_hardened_as;
    row.reallocate = hardened::reallocate_short_or_long;
    row.usable_size = hardened::usable_size_of;
    row.expand = hardened::expand_short_or_long;
    row.good_size = hardened::good_size_of;
    row.check_bounds = hardened::check_bounds_of;
    row.size_in = hardened::size_in_cell;
  }
  return made;
}

}  // namespace

namespace hardened {

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

bool begin(bool (*note)()) {
  if (!span::initialise() || !make_secrets() || !note()) return false;
  const Policies made = make_policies();
  if (!write_sealed(&full_policies, &made, sizeof made) || !use(full_policies)) return false;
  close_gaps();
  registry::key_messages(kTagBytes);  // a cell keeps its tag on its way
  free_reads_as_zero = true;
  clear_free_objects();
  span::serve_nobody();
  sampling::turn_for_good(false);
  return true;
}

}  // namespace hardened
}  // namespace loft
