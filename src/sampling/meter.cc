#include "sampling/meter.h"

#include "base/bits.h"
#include "base/peek.h"
#include "cache/arrays.h"
#include "cache/bins.h"
#include "profile/progress.h"
#include "sampling/mark.h"
#include "space/metadata.h"

namespace loft::sampling {

constinit Atomic<bool> turned{false};
constinit uint64_t mark_secret = 0;
constinit bool is_marking = false;

namespace {

// Objects in a second bin: enough that the slow path costs a few instructions an allocation, and
// few enough that the objects in turn stay in the processor's caches.
constexpr unsigned kMost = 32;
constexpr size_t kMostBytes = 128 * 1024;
// Of objects that are written to before the program has them.
constexpr size_t kMostWritten = 16 * 1024;
constinit size_t most_bytes = kMostBytes;
unsigned most_of(SizeClass c) {
  return static_cast<unsigned>(most<size_t>(least<size_t>(kMost, most_bytes / class_size(c)), 1));
}

constexpr unsigned kSlots = kMost + 1;  // the null slot is the first
constexpr size_t kSlotBytes = sizeof(void*) * kSlots * kSizeClasses;
static_assert(kSlotBytes <= kMetadataMaxBlock);

// Once it has slots, a block keeps them.
void** slots_of(ThreadCache* thread, SizeClass c) {
  if (LOFT_UNLIKELY(thread->metered_slots == nullptr)) {
    thread->metered_slots = static_cast<void**>(metadata::allocate(kSlotBytes));
    if (thread->metered_slots == nullptr) return nullptr;
    thread->has_guests = true;
  }
  return thread->metered_slots + c * kSlots;
}

// Of a processor's block, the second bins are the full one, which is empty too; so they are in the
// stand-in's tables, which all threads go by under owner=cpu.
size_t offset_of(const ThreadCache* thread, SizeClass c, bool on) {
  if (!on) return bin_offset(c);
  const bool has_none = thread->processor != nullptr || thread == &empty_cache;
  return has_none ? size_t{kMedium} : offsetof(ThreadCache, metered) + c * sizeof(Bin);
}

constinit bool for_good = false;
constinit bool clears_first_words = false;

void turn(ThreadCache* thread, bool on) {
  for (size_t size = 0; size <= kTableMax; ++size) {
    store_entry(thread->bin_of[size], offset_of(thread, class_of(most<size_t>(size, 1)), on));
  }
  for (size_t step = 0; step < kSteps; ++step) {
    store_entry(thread->bin_of_step[step], offset_of(thread, class_of_step(step), on));
  }
}

void move_cleared(void** to, void* const* from, unsigned count) {
  for (void* const* const end = from + count; from != end; ++from, ++to) {
    void* const p = *from;
    *static_cast<uint64_t*>(p) = sampling::word_ahead(p);
    *to = p;
    LOFT_FORGET(to);
  }
}

}  // namespace

void put_back(ThreadCache* thread, SizeClass c, void* p) {
  if (LOFT_LIKELY(bins::has_space(thread, c))) return thread->bins[c].push(p);
  bins::push_slow(thread, c, p);
}

void settle(ThreadCache* thread, SizeClass c) {
  const size_t size = class_size(c);
  const size_t offset =
      load_entry(size <= kTableMax ? thread->bin_of[size] : thread->bin_of_step[step_of(size)]);
  const bool on = is_turned();
  if (LOFT_UNLIKELY((offset != bin_offset(c)) != on)) turn(thread, on);
}

void join(ThreadCache* thread) {
  // Sequentially consistent, as in turn_all: the block was added before this, and there the mark is
  // set before the list is read. One of the two sees what the other did; with less, neither might.
  thread_fence(memory_order_seq_cst);
  settle(thread, 0);
}

void turn_for_good(bool clears) {
  for_good = true;
  clears_first_words = clears;
  if (clears) most_bytes = kMostWritten;
  turn_all(true);
}

void turn_all(bool on) {
  on = on || for_good;
  turned.store(on, memory_order_relaxed);
  // Also the release that policy_of pairs with (malloc/policy.h).
  thread_fence(memory_order_seq_cst);
  for (ThreadCache* t = newest_cache(); t != nullptr; t = t->older) turn(t, on);
  turn(&empty_cache, on);
}

bool is_due(ThreadCache* thread, SizeClass c) {
  const uint64_t bit = uint64_t{1} << c;
  const bool due = (thread->samples_due & bit) != 0;
  thread->samples_due &= ~bit;
  return due;
}

unsigned short_of(SizeClass c) { return most_of(c) / 4; }

Filled fill(ThreadCache* thread, SizeClass c) {
  const BinState& state = thread->states[c];
  if (thread->processor != nullptr || state.slots == nullptr) return Filled::kNothing;
  // Not empty after all: there is a rest of an earlier profile, or what refilled the ordinary bin
  // has allocated, too.
  if (LOFT_UNLIKELY(*thread->metered[c].top() != nullptr)) return Filled::kYes;
  void** const slots = slots_of(thread, c);
  if (LOFT_UNLIKELY(slots == nullptr)) return Filled::kNothing;
  const unsigned there = bins::count(thread, c);
  const unsigned wanted = least(there, most_of(c));
  if (wanted == 0) return Filled::kNothing;
  const size_t allowed = profile::room() / class_size(c);
  const auto moved = static_cast<unsigned>(least<size_t>(wanted, allowed));
  if (LOFT_LIKELY(moved == wanted)) {
    profile::charge(moved * class_size(c));
  } else {
    // The sample has fallen on the object behind these: on no other class's, whose slow path may
    // come first. So it is noted, and the next gap begins.
    profile::draw();
    if (moved == 0) return Filled::kDue;
    thread->samples_due |= uint64_t{1} << c;
  }
  void** const rest = state.slots + there - moved;
  if (clears_first_words) {
    move_cleared(slots + 1, rest + 1, moved);
  } else {
    __builtin_memcpy(slots + 1, rest + 1, moved * sizeof(void*));
  }
  // A fork between these two loses the objects for the child, which is better than to have them
  // twice.
  thread->bins[c].set_top(rest);
  thread->metered[c].set_top(slots + moved);
  return Filled::kYes;
}

void* pop(ThreadCache* thread, SizeClass c) {
  Bin& bin = thread->metered[c];
  return *bin.top() == nullptr ? nullptr : bin.pop();
}

void empty(ThreadCache* thread) {
  if (LOFT_LIKELY(thread->metered_slots == nullptr)) return;
  thread->samples_due = 0;
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    while (void* const p = pop(thread, c)) {
      if (LOFT_UNLIKELY(clears_first_words)) sampling::mark(p);  // nobody has it
      put_back(thread, c, p);
    }
  }
}

unsigned held(const ThreadCache* thread, SizeClass c) {
  void** const first = peek(thread->metered_slots);
  if (LOFT_LIKELY(first == nullptr)) return 0;
  void** const top = peek(thread->metered[c].top());
  void** const slots = first + c * kSlots;
  return top < slots || top >= slots + kSlots ? 0 : static_cast<unsigned>(top - slots);
}

void visit(const ThreadCache* thread, SizeClass c, void (*visit)(void* context, const void* p),
           void* context) {
  void* const* const end = peek(thread->metered[c].top()) + 1;
  for (unsigned left = held(thread, c); left != 0; --left) {
    visit(context, peek(end[-static_cast<ptrdiff_t>(left)]));
  }
}

bool holds(const ThreadCache* thread, SizeClass c, const void* p) {
  void* const* const end = thread->metered[c].top() + 1;
  for (unsigned left = held(thread, c); left != 0; --left) {
    if (end[-static_cast<ptrdiff_t>(left)] == p) return true;
  }
  return false;
}

}  // namespace loft::sampling
