#include "cpu/core.h"

#include <new>

#include "base/peek.h"
#include "cache/batch_cache.h"
#include "cache/bins.h"
#include "cache/depot.h"
#include "cache/guest.h"
#include "cache/medium_cache.h"
#include "hard/quarantine.h"
#include "heap/registry.h"
#include "limits/limits.h"
#include "os/os.h"
#include "slab/slab.h"
#include "space/metadata.h"
#include "space/span.h"
#include "space/window.h"

namespace loft::core {

namespace {

constexpr unsigned kMoves = 3;           // in a row, before another processor's block is accepted
constexpr unsigned kForeignSlots = 128;  // in the last stack, the null slot included
constexpr unsigned kWatchedFrees = 32;   // frees of other heaps' objects to check singly

constinit os::Lock making;
// By processor number; nullptr until the processor has a block. The sequences use a table of their
// own, os::restartable.blocks, whose unused entries point to a common block on which they fail.
constinit Atomic<Core*>* by_number = nullptr;
constinit unsigned numbers = 0;
// An address above every array. It and both neighbours contain null, so pops fail on all three. The
// lower neighbour is the limit of a stack without an array, so pushes fail on all three as well.
constinit void** closed = nullptr;
constinit bool restartable_works = false;

uint64_t bit(SizeClass stack) { return uint64_t{1} << stack; }

// Whether a stack is closed. `top` is a neighbour if a sequence committed after the close.
bool is_closed(void** top) { return closed - 1 <= top && top <= closed + 1; }

Bin without_array() { return {closed, closed - 1}; }

// Opens a held stack with the bin as the lock's holder leaves it. Under the lock.
//
// Release: a sequence that reads the new top also finds (a) the array filled, through the address
// dependency on the top; and (b) the matching limit, because a sequence reads the limit after the
// top. (x86-64 keeps that load order. On an architecture that does not, the sequence must enforce
// it.)
void open(Core* core, SizeClass stack) {
  Bin bin = without_array();
  if (stack == kForeign) {
    if (core->foreign != nullptr) bin = {core->foreign, core->foreign + (kForeignSlots - 1)};
  } else if (core->thread.states[stack].slots != nullptr) {
    bin = core->thread.bins[stack];
  }
  __atomic_store_n(core->stacks[stack].limit_word(), bin.limit(), __ATOMIC_RELAXED);
  __atomic_store_n(core->stacks[stack].top_word(), bin.top(), __ATOMIC_RELEASE);
}

// Takes over a closed stack whose top was `top`. The objects of the last stack go into batches at
// once. (If a thread moved to the processor of an object's heap just before it pushed the object,
// that object belongs to the block's own heap and returns by a message.) Under the lock.
void take_over(Core* core, SizeClass stack, void** top) {
  core->held |= bit(stack);
  if (top == closed) return;  // no array
  if (stack != kForeign) {
    core->thread.bins[stack].set_top(top);
    return;
  }
  for (void** slot = core->foreign + 1; slot <= top; ++slot) {
    const Entry entry = pagemap.of(*slot);
    if (LOFT_UNLIKELY(!entry.is_slab())) slab::report_without_slab(*slot);
    batch_cache::add(&core->thread, *slot, entry);
  }
}

// The stack's top before the close, given that the caller's close replaced `found`. That is `found`
// itself, unless a refused fence left the stack closed and no holder came since. Under the lock.
void** top_before(Core* core, SizeClass stack, void** found) {
  void** const left = core->left_closed[stack];
  core->left_closed[stack] = nullptr;
  return left != nullptr && is_closed(found) ? left + (found - closed) : found;
}

// A block with every stack closed. nullptr without memory.
Core* new_block() {
  void* block = metadata::allocate_apart(sizeof(Core) + kBatchBytes);
  if (block == nullptr) return nullptr;
  auto* core = static_cast<Core*>(block);
  core->owner = kNeverOwner;
  core->full = kEmptyBin;
  core->thread.set_up();
  core->thread.core = core;
  core->thread.mode = Mode::kProcessors;
  for (Bin& stack : core->stacks) stack = without_array();
  if (!restartable_works) core->held = kAllStacks;
  return core;
}

Core* make(unsigned number) {
  const os::Guard guard(making);
  // Relaxed: written under the lock.
  if (Core* core = by_number[number].load(memory_order_relaxed); core != nullptr) return core;
  Heap* heap = nullptr;
  if (registry::adopt(heap) == nullptr) return nullptr;
  Core* core = new_block();
  if (core == nullptr) {
    registry::park(heap);
    return nullptr;
  }
  core->number = number;
  // As if the background thread had emptied it: the block needs no work until a thread enters it.
  core->held = kAllStacks;
  core->emptied = true;
  core->thread.heap = heap;
  core->owner = core->thread.owner = heap->id();
  add_block(&core->thread);
  limits::count_caches(1);
  guest::join(&core->thread);
  core->earlier = newest.load(memory_order_relaxed);
  // Three releases, so that every reader finds the block set up. They pair with the acquires in
  // enter and for_each, and with the address dependency in the sequences.
  newest.store(core, memory_order_release);
  by_number[number].store(core, memory_order_release);
  if (restartable_works) {
    __atomic_store_n(&os::restartable.blocks[number], static_cast<void*>(core), __ATOMIC_RELEASE);
  }
  return core;
}

}  // namespace

constinit Atomic<Core*> newest{nullptr};

// Closes the stacks of `wanted` from any processor, with one fence for all of them. Under the lock.
// False if the system refuses the fence. The stacks then stay closed and unowned until a thread
// holds them on the processor or a fence is granted. (A stack whose exchange was overwritten stays
// open.)
//
// A sequence that read the old top before our exchange may still commit, once. Its last instruction
// rereads the top and writes it, in two steps as seen from another processor:
// (a) If both come after our exchange, they move `closed` by one entry. The next sequence fails.
// (b) If our exchange falls between them, it is overwritten, as if it had not happened.
//
// After the fence, no such sequence is left. A stack that is still closed then stays closed until
// we open it, and its top was the value that the exchange returned, shifted as `closed` was. Any
// other stack is retried.
//
// Acquire pairs with the commits of pushes, which follow their stores to the array. The fence
// orders what came after our exchange.
bool close_from_afar(Core* core, uint64_t wanted) {
  void** tops[kStacks];
  while (wanted != 0) {
    for (uint64_t left = wanted; left != 0; left &= left - 1) {
      const SizeClass stack = lowest_bit(left);
      void** const found =
          __atomic_exchange_n(core->stacks[stack].top_word(), closed, __ATOMIC_ACQ_REL);
      tops[stack] = top_before(core, stack, found);
    }
    const bool fenced = os::fence_processor(core->number);
    core->fences.add(1);
    for (uint64_t left = wanted; left != 0; left &= left - 1) {
      const SizeClass stack = lowest_bit(left);
      void*** place = core->stacks[stack].top_word();
      if (LOFT_UNLIKELY(!fenced)) {
        if (tops[stack] != closed) core->left_closed[stack] = tops[stack];
      } else if (void** at = __atomic_load_n(place, __ATOMIC_ACQUIRE); LOFT_LIKELY(is_closed(at))) {
        // Relaxed: no sequence can change the top any more, and sequences fail on both values.
        __atomic_store_n(place, closed, __ATOMIC_RELAXED);
        take_over(core, stack, tops[stack] + (at - closed));
        wanted &= ~bit(stack);
      }
    }
    if (LOFT_UNLIKELY(!fenced)) return false;
  }
  return true;
}

bool prepare() {
  if (!span::initialise()) return false;
  const os::Sequences sequences = os::find_restartable();
  numbers = os::processor_numbers();
  static_assert(sizeof(Core) + kBatchBytes <= kMetadataMaxBlock - 2 * kCacheLine);
  constexpr unsigned kMost = kMetadataMaxBlock / sizeof(void*) - 2;
  if (sequences == os::Sequences::kCrash || numbers == 0 || numbers > kMost) return false;
  restartable_works = sequences == os::Sequences::kWork;
  closed = open_nulls();
  if (closed != nullptr) ++closed;
  auto** blocks = static_cast<void**>(metadata::allocate((numbers + 2) * sizeof(void*)));
  by_number = static_cast<Atomic<Core*>*>(metadata::allocate(numbers * sizeof(Atomic<Core*>)));
  Core* nobodys = closed == nullptr ? nullptr : new_block();
  if (blocks == nullptr || by_number == nullptr || nobodys == nullptr) return false;
  for (unsigned i = 0; i < numbers + 2; ++i) blocks[i] = nobodys;
  os::restartable.blocks = blocks + 2;
  return true;
}

constinit bool are_owners = false;

void begin() {
  are_owners = true;
  span::serve_processors();
}

Thread* enter() {
  for (unsigned moves = 0;; ++moves) {
    const unsigned number = os::processor() % numbers;
    Core* core = by_number[number].load(memory_order_acquire);
    if (LOFT_UNLIKELY(core == nullptr)) core = make(number);
    if (LOFT_UNLIKELY(core == nullptr)) return nullptr;
    core->lock.lock();
    // The caller has already moved to another processor: each stack would cost a fence.
    if (LOFT_UNLIKELY(os::processor() != number) && moves < kMoves) {
      core->lock.unlock();
      continue;
    }
    if (LOFT_UNLIKELY(core->emptied)) {
      core->emptied = false;
      core->activity.looks = 0;
    }
    return &core->thread;
  }
}

void leave(Core* core) {
  if (restartable_works) {
    for (uint64_t left = core->held; left != 0; left &= left - 1) open(core, lowest_bit(left));
    core->held = 0;
  }
  core->lock.unlock();
}

bool hold(Core* core, SizeClass stack) {
  if (LOFT_LIKELY((core->held & bit(stack)) != 0)) return true;
  void** const top = os::close_here(core->stacks[stack].top_word(), closed, core->number);
  if (LOFT_UNLIKELY(top == nullptr)) return close_from_afar(core, bit(stack));
  take_over(core, stack, top_before(core, stack, top));
  return true;
}

void flush_all(Core* core) {
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    if (hold(core, c)) bins::flush_class(&core->thread, c);
  }
  depot::release_spares(&core->thread);
}

void free_foreign(Core* core, void* p, Entry entry) {
  hold(core, kForeign);
  if (restartable_works && core->foreign == nullptr && ++core->foreign_frees >= kWatchedFrees) {
    core->foreign = static_cast<void**>(metadata::allocate(kForeignSlots * sizeof(void*)));
  }
  batch_cache::add(&core->thread, p, entry);
}

void** top(const Core* core, SizeClass size_class) {
  void** const at = peek(core->stacks[size_class].top());
  if (!is_closed(at)) return at;
  void** const left = peek(core->left_closed[size_class]);
  return left != nullptr ? left + (at - closed) : peek(core->thread.bins[size_class].top());
}

Foreign foreign_of(const Core* core) {
  void** const slots = peek(core->foreign);
  void** at = peek(core->stacks[kForeign].top());
  if (is_closed(at)) {
    void** const left = peek(core->left_closed[kForeign]);
    if (left == nullptr) return {};
    at = left + (at - closed);
  }
  if (slots == nullptr || at < slots || at >= slots + kForeignSlots) return {};
  return {slots + 1, at + 1};
}

void count_foreign(const Core* core, size_t* objects) {
  const Foreign foreign = foreign_of(core);
  for (void** slot = foreign.first; slot < foreign.end; ++slot) {
    void* const p = peek(*slot);
    if (!pagemap.contains(p)) continue;
    const Entry entry = pagemap.of(p);
    if (entry.is_slab()) ++objects[class_of_bin(entry.bin())];
  }
}

Totals totals() {
  Totals totals{0, 0, making.acquisitions(), making.waits()};
  for_each([&](const Core* core) {
    ++totals.blocks;
    totals.fences += core->fences.get();
    totals.locks += core->lock.acquisitions();
    totals.waits += core->lock.waits();
  });
  return totals;
}

void prepare_fork() {
  making.lock();
  for_each([](Core* core) { core->lock.lock(); });
}

// The sequences of threads that the child lacks never committed and have left nothing behind.
void finish_fork(bool child) {
  for_each([=](Core* core) { core->lock.after_fork(child); });
  making.after_fork(child);
  if (child && restartable_works) os::keep_fences();
}

}  // namespace loft::core
