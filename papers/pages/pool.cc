#include "pages/pool.h"

#include <new>

#include "os/os.h"
#include "space/span.h"

namespace engine::pages {

__thread Mine mine LOFT_TLS = {nullptr, false};

namespace {

constinit SpinLock pool_lock;
// Under the lock.
constinit Heap* pool = nullptr;
constinit loft::HeapId heaps = 0;
constinit bool hook_set = false;

constinit loft::Atomic<Heap*> all{nullptr};

void give(Heap* heap) {
  heap->batches.flush(heap->tally);
  const SpinGuard guard(pool_lock);
  heap->next_pooled = pool;
  pool = heap;
}

void at_exit(void* value) {
  auto* const heap = static_cast<Heap*>(value);
  mine = {nullptr, true};
  heap->clear();
  give(heap);
}

// loft's runtime is in the library, too, and sets its own hook as it is loaded (101). Where
// anything has allocated before, that one would run for this engine's heaps: so here once more.
__attribute__((constructor(103))) void set_hook() { hook_set = loft::os::on_thread_exit(at_exit); }

// Under the lock. No id is kNeverOwner, so that no entry is mistaken for another heap's.
Heap* make_heap() {
  if (heaps + 1 == loft::kNeverOwner || !loft::span::initialise()) return nullptr;
  if (!hook_set) hook_set = loft::os::on_thread_exit(at_exit);
  if (heaps == 0) {
    read_policy();
    loft::os::random_bytes(&global_key, sizeof(global_key));
  }
  void* const at = loft::metadata::allocate_apart(sizeof(Heap));
  if (at == nullptr) return nullptr;
  auto* const heap = new (at) Heap(++heaps);
  // Relaxed: only holders of the lock write it.
  heap->next = all.load(loft::memory_order_relaxed);
  // Release pairs with the acquire in first_heap, which holds no lock: the heap is constructed.
  all.store(heap, loft::memory_order_release);
  return heap;
}

// The lock also hands over what the heap's last thread wrote.
Heap* take() {
  const SpinGuard guard(pool_lock);
  Heap* const heap = pool;
  if (heap == nullptr) return make_heap();
  pool = heap->next_pooled;
  return heap;
}

}  // namespace

LOFT_COLD Heap* attach() {
  if (mine.ended) return nullptr;
  Heap* const heap = take();
  if (heap == nullptr) return nullptr;
  // First, because setting the value may allocate.
  mine.heap = heap;
  if (!loft::os::set_thread_exit_value(heap)) {
    // Nobody would return the heap: the thread borrows one for each call.
    mine = {nullptr, true};
    give(heap);
    return nullptr;
  }
  return heap;
}

Borrowed::Borrowed() : heap_(take()) {}
Borrowed::~Borrowed() {
  if (heap_ != nullptr) give(heap_);
}

Heap* first_heap() { return all.load(loft::memory_order_acquire); }

void lock_pool() { pool_lock.lock(); }
void unlock_pool() { pool_lock.unlock(); }

void pool_all_but(const Heap* kept) {
  pool_lock.reset();
  pool = nullptr;
  for (Heap* heap = first_heap(); heap != nullptr; heap = heap->next) {
    if (heap == kept) continue;
    heap->batches.flush(heap->tally);
    heap->next_pooled = pool;
    pool = heap;
  }
}

const SpinLock& the_pool_lock() { return pool_lock; }

}  // namespace engine::pages
