#include "cache/percpu.h"

#include <new>

#include "base/peek.h"
#include "cache/arrays.h"
#include "cache/batch_cache.h"
#include "cache/bins.h"
#include "cache/guest.h"
#include "cache/medium_cache.h"
#include "heap/heap.h"
#include "heap/registry.h"
#include "os/limits.h"
#include "os/os.h"
#include "slab/slab.h"
#include "space/metadata.h"
#include "space/span.h"
#include "space/window.h"

namespace loft::percpu {

namespace {

constexpr unsigned kMoves = 3;           // in a row, before another processor's block is accepted
constexpr unsigned kForeignSlots = 128;  // in the last stack, the null slot included
constexpr unsigned kWatchedFrees = 32;   // frees of other heaps' objects to check singly

constinit os::Lock making;
// By processor number; nullptr until the processor has a block. The sequences use a table of their
// own, os::restartable.blocks, whose unused entries point to a common block on which they fail.
constinit Atomic<Processor*>* by_number = nullptr;
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
void open(Processor* processor, SizeClass stack) {
  Bin bin = without_array();
  if (stack == kForeign) {
    if (processor->foreign != nullptr)
      bin = {processor->foreign, processor->foreign + (kForeignSlots - 1)};
  } else if (processor->thread.states[stack].slots != nullptr) {
    bin = processor->thread.bins[stack];
  }
  __atomic_store_n(processor->stacks[stack].limit_word(), bin.limit(), __ATOMIC_RELAXED);
  __atomic_store_n(processor->stacks[stack].top_word(), bin.top(), __ATOMIC_RELEASE);
}

// The lock's holder now holds a closed stack, whose top was `top`. The objects of the last stack go
// into batches at once. (If a thread moved to the processor of an object's heap just before it
// pushed the object, that object belongs to the block's own heap and returns by a message.) Under
// the lock.
void note_held(Processor* processor, SizeClass stack, void** top) {
  processor->held |= bit(stack);
  if (top == closed) return;  // no array
  if (stack != kForeign) {
    processor->thread.bins[stack].set_top(top);
    return;
  }
  for (void** slot = processor->foreign + 1; slot <= top; ++slot) {
    const Entry entry = pagemap.of(*slot);
    if (LOFT_UNLIKELY(!entry.is_slab())) slab::report_without_slab(*slot);
    batch_cache::add(&processor->thread, *slot, entry);
  }
}

// The stack's top before the close, given that the caller's close replaced `found`. That is `found`
// itself, unless a refused fence left the stack closed and no holder came since. Under the lock.
void** top_before(Processor* processor, SizeClass stack, void** found) {
  void** const left = processor->left_closed[stack];
  processor->left_closed[stack] = nullptr;
  return left != nullptr && is_closed(found) ? left + (found - closed) : found;
}

// A block with every stack closed. nullptr without memory.
Processor* new_block() {
  void* block = metadata::allocate_apart(sizeof(Processor) + kBatchBytes);
  if (block == nullptr) return nullptr;
  auto* processor = static_cast<Processor*>(block);
  processor->owner = kNeverOwner;
  processor->full = kEmptyBin;
  processor->thread.set_up();
  processor->thread.processor = processor;
  processor->thread.mode = Mode::kProcessors;
  for (Bin& stack : processor->stacks) stack = without_array();
  if (!restartable_works) processor->held = kAllStacks;
  return processor;
}

Processor* make(unsigned number) {
  const os::Guard guard(making);
  // Relaxed: written under the lock.
  if (Processor* processor = by_number[number].load(memory_order_relaxed); processor != nullptr)
    return processor;
  Heap* heap = nullptr;
  if (registry::adopt(heap) == nullptr) return nullptr;
  Processor* processor = new_block();
  if (processor == nullptr) {
    registry::abandon(heap);
    return nullptr;
  }
  processor->number = number;
  // As a look leaves a block that it has emptied: no look has work with it until a thread enters.
  processor->held = kAllStacks;
  processor->emptied = true;
  processor->thread.heap = heap;
  processor->owner = processor->thread.owner = heap->id();
  add_cache(&processor->thread);
  limits::count_caches(1);
  guest::join(&processor->thread);
  processor->earlier = newest.load(memory_order_relaxed);
  // Three releases, so that every reader finds the block set up. They pair with the acquires in
  // enter and for_each, and with the address dependency in the sequences.
  newest.store(processor, memory_order_release);
  by_number[number].store(processor, memory_order_release);
  if (restartable_works) {
    __atomic_store_n(&os::restartable.blocks[number], static_cast<void*>(processor),
                     __ATOMIC_RELEASE);
  }
  return processor;
}

}  // namespace

constinit Atomic<Processor*> newest{nullptr};

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
bool close_from_afar(Processor* processor, uint64_t wanted) {
  void** tops[kStacks];
  while (wanted != 0) {
    for (uint64_t left = wanted; left != 0; left &= left - 1) {
      const SizeClass stack = lowest_bit(left);
      void** const found =
          __atomic_exchange_n(processor->stacks[stack].top_word(), closed, __ATOMIC_ACQ_REL);
      tops[stack] = top_before(processor, stack, found);
    }
    const bool fenced = os::fence_processor(processor->number);
    processor->fences.add(1);
    for (uint64_t left = wanted; left != 0; left &= left - 1) {
      const SizeClass stack = lowest_bit(left);
      void*** top = processor->stacks[stack].top_word();
      if (LOFT_UNLIKELY(!fenced)) {
        if (tops[stack] != closed) processor->left_closed[stack] = tops[stack];
      } else if (void** at = __atomic_load_n(top, __ATOMIC_ACQUIRE); LOFT_LIKELY(is_closed(at))) {
        // Relaxed: no sequence can change the top any more, and sequences fail on both values.
        __atomic_store_n(top, closed, __ATOMIC_RELAXED);
        note_held(processor, stack, tops[stack] + (at - closed));
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
  static_assert(sizeof(Processor) + kBatchBytes <= kMetadataMaxBlock - 2 * kCacheLine);
  constexpr unsigned kMost = kMetadataMaxBlock / sizeof(void*) - 2;
  if (sequences == os::Sequences::kCrash || numbers == 0 || numbers > kMost) return false;
  restartable_works = sequences == os::Sequences::kWork;
  closed = open_nulls();
  if (closed != nullptr) ++closed;
  auto** blocks = static_cast<void**>(metadata::allocate((numbers + 2) * sizeof(void*)));
  by_number =
      static_cast<Atomic<Processor*>*>(metadata::allocate(numbers * sizeof(Atomic<Processor*>)));
  Processor* nobodys = closed == nullptr ? nullptr : new_block();
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

ThreadCache* enter() {
  for (unsigned moves = 0;; ++moves) {
    const unsigned number = os::processor() % numbers;
    Processor* processor = by_number[number].load(memory_order_acquire);
    if (LOFT_UNLIKELY(processor == nullptr)) processor = make(number);
    if (LOFT_UNLIKELY(processor == nullptr)) return nullptr;
    processor->lock.lock();
    // The caller has already moved to another processor: each stack would cost a fence.
    if (LOFT_UNLIKELY(os::processor() != number) && moves < kMoves) {
      processor->lock.unlock();
      continue;
    }
    if (LOFT_UNLIKELY(processor->emptied)) {
      processor->emptied = false;
      processor->activity.looks = 0;
    }
    return &processor->thread;
  }
}

void leave(Processor* processor) {
  if (restartable_works) {
    for (uint64_t left = processor->held; left != 0; left &= left - 1)
      open(processor, lowest_bit(left));
    processor->held = 0;
  }
  processor->lock.unlock();
}

bool hold(Processor* processor, SizeClass stack) {
  if (LOFT_LIKELY((processor->held & bit(stack)) != 0)) return true;
  void** const top = os::close_here(processor->stacks[stack].top_word(), closed, processor->number);
  if (LOFT_UNLIKELY(top == nullptr)) return close_from_afar(processor, bit(stack));
  note_held(processor, stack, top_before(processor, stack, top));
  return true;
}

void flush_all(Processor* processor) {
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    if (hold(processor, c)) bins::flush_class(&processor->thread, c);
  }
  depot::release_spares(&processor->thread);
}

void free_foreign(Processor* processor, void* p, Entry entry) {
  hold(processor, kForeign);
  if (restartable_works && processor->foreign == nullptr &&
      ++processor->foreign_frees >= kWatchedFrees) {
    processor->foreign = static_cast<void**>(metadata::allocate(kForeignSlots * sizeof(void*)));
  }
  batch_cache::add(&processor->thread, p, entry);
}

void** top(const Processor* processor, SizeClass size_class) {
  void** const at = peek(processor->stacks[size_class].top());
  if (!is_closed(at)) return at;
  void** const left = peek(processor->left_closed[size_class]);
  return left != nullptr ? left + (at - closed) : peek(processor->thread.bins[size_class].top());
}

Foreign foreign_of(const Processor* processor) {
  void** const slots = peek(processor->foreign);
  void** at = peek(processor->stacks[kForeign].top());
  if (is_closed(at)) {
    void** const left = peek(processor->left_closed[kForeign]);
    if (left == nullptr) return {};
    at = left + (at - closed);
  }
  if (slots == nullptr || at < slots || at >= slots + kForeignSlots) return {};
  return {slots + 1, at + 1};
}

void count_foreign(const Processor* processor, size_t* objects) {
  const Foreign foreign = foreign_of(processor);
  for (void** slot = foreign.first; slot < foreign.end; ++slot) {
    void* const p = peek(*slot);
    if (!pagemap.contains(p)) continue;
    const Entry entry = pagemap.of(p);
    if (entry.is_slab()) ++objects[class_of_bin(entry.bin())];
  }
}

ProcessorTotals totals() {
  ProcessorTotals totals{0, 0, making.acquisitions(), making.waits()};
  for_each([&](const Processor* processor) {
    ++totals.blocks;
    totals.fences += processor->fences.get();
    totals.locks += processor->lock.acquisitions();
    totals.waits += processor->lock.waits();
  });
  return totals;
}

void prepare_fork() {
  making.lock();
  for_each([](Processor* processor) { processor->lock.lock(); });
}

// The sequences of threads that the child lacks never committed and have left nothing behind.
void finish_fork(bool child) {
  for_each([=](Processor* processor) { processor->lock.after_fork(child); });
  making.after_fork(child);
  if (child && restartable_works) os::keep_fences();
}

// What gives back the memory of processors that do little.

namespace {

size_t purge(Processor* processor, Heap::Walk walk) {
  Heap* const heap = processor->thread.heap;
  const os::Guard guard(heap->lock());
  return heap->purge(&processor->lock, walk);
}

// Returns all of the block's objects. The stacks stay closed until the next slow path on the
// processor, which shows that it is in use. Returns the bytes of holes that were purged. Under the
// lock.
size_t empty(Processor* processor, Heap::Walk walk) {
  ThreadCache* thread = &processor->thread;
  close_from_afar(processor, kAllStacks & ~processor->held);
  // If fences are refused, this and flush_all still reach the caller's own processor.
  hold(processor, kForeign);
  guest::empty(thread);
  flush_all(processor);
  medium_cache::release_all(thread);
  batch_cache::send_all(thread);
  processor->emptied = processor->held == kAllStacks;
  return purge(processor, walk);
}

void unlock_emptied(Processor* processor) {
  if (LOFT_LIKELY(processor->emptied)) {
    processor->lock.unlock();
  } else {
    leave(processor);
  }
}

// As for a thread, this changes with every call, unless another call exactly reverses it.
uint64_t activity_of(const Processor* processor) {
  uint64_t sum = 0;
  for (SizeClass stack = 0; stack < kStacks; ++stack) {
    void** const at =
        stack == kForeign ? peek(processor->stacks[stack].top()) : top(processor, stack);
    sum = (sum ^ reinterpret_cast<uint64_t>(at)) * 0x9E3779B97F4A7C15u;
  }
  const ThreadCounters& counters = processor->thread.counters;
  return sum + counters.flushes.get() + counters.batches_sent.get() +
         medium_cache::hits(&processor->thread) + processor->thread.heap->counters().refills.get();
}

bool wants_emptying(Processor* processor, unsigned ticks) {
  Heap* heap = processor->thread.heap;
  if (processor->emptied) return heap->inbox().maybe_pending() || !heap->is_purged();
  return processor->activity.look(activity_of(processor), ticks);
}

}  // namespace

bool look(unsigned ticks) {
  bool all_empty = true;
  for_each([&](Processor* processor) {
    if (!processor->lock.try_lock()) {
      all_empty = false;
      return;
    }
    const bool wanted = wants_emptying(processor, ticks);
    // A block's messages may be for a block that was visited earlier.
    if (wanted || !processor->emptied) all_empty = false;
    if (!wanted) return processor->lock.unlock();
    empty(processor, Heap::Walk::kNowAndThen);
    processor->thread.counters.emptied.add(1);
    unlock_emptied(processor);
  });
  return all_empty;
}

size_t empty_all() {
  size_t purged = 0;
  for_each([&](Processor* processor) {
    processor->lock.lock();
    purged += empty(processor, Heap::Walk::kNow);
    unlock_emptied(processor);
  });
  return purged;
}

void empty_others() {
  for_each([](Processor* processor) {
    if (!processor->lock.try_lock()) return;
    empty(processor, Heap::Walk::kNow);
    unlock_emptied(processor);
  });
}

namespace {

void lock(LockStep step) {
  if (step == LockStep::kBeforeBlocks) prepare_fork();
}

void unlock(LockStep step, bool child) {
  if (step == LockStep::kBeforeBlocks) finish_fork(child);
}

}  // namespace

constinit const Guest guest = {
    .lock = lock,
    .unlock = unlock,
    .purge_idle = look,
};

}  // namespace loft::percpu
