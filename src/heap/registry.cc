#include "heap/registry.h"

#include <new>

#include "os/lock.h"
#include "os/os.h"
#include "space/metadata.h"
#include "space/span.h"

namespace loft::registry {

namespace {

constinit os::Lock lock;
constinit Heap* abandoned = nullptr;
constinit Atomic<Heap*> shared{nullptr};
constinit Atomic<unsigned> heap_count{0};
constinit Counter adoption_count;

Heap* create() {
  const unsigned id = heap_count.load(memory_order_relaxed) + 1;
  if (id >= kMaxHeaps) return nullptr;
  void* block = metadata::allocate(sizeof(Heap));
  if (block == nullptr) return nullptr;
  Heap* heap = new (block) Heap(static_cast<HeapId>(id));
  // Release: pairs with the acquires in deliver, at and count. A reader sees the heap constructed.
  directory[id].store(&heap->inbox(), memory_order_release);
  heap_count.store(id, memory_order_release);
  return heap;
}

// Under the lock.
Heap* abandoned_or_new() {
  Heap* heap = abandoned;
  if (heap == nullptr) return create();
  abandoned = heap->next_abandoned;
  adoption_count.add(1);
  heap->next_abandoned = nullptr;
  heap->set_abandoned(false);
  return heap;
}

// Without the lock: a purge may hold the heap's for long, and other threads' starts must not wait
// for it.
Heap* begin_net(Heap* heap) {
  if (heap == nullptr) return nullptr;
  const os::Guard guard(heap->lock());
  heap->begin_net();
  return heap;
}

}  // namespace

Heap* adopt(Heap*& holder) {
  {
    const os::Guard guard(lock);
    if (holder != nullptr) return holder;
    holder = abandoned_or_new();
  }
  return begin_net(holder);
}

Heap* shared_heap() {
  // Acquire pairs with the release below: the heap is constructed.
  if (Heap* heap = shared.load(memory_order_acquire); heap != nullptr) return heap;
  if (!span::initialise()) return nullptr;
  const os::Guard guard(lock);
  if (Heap* heap = shared.load(memory_order_relaxed); heap != nullptr) return heap;
  Heap* heap = abandoned_or_new();
  shared.store(heap, memory_order_release);
  return heap;
}

bool is_shared(const Heap* heap) { return shared.load(memory_order_relaxed) == heap; }

Heap* samples_heap() {
  if (medium::samples.load(memory_order_relaxed) == kNoHeap) {
    if (!span::initialise()) return nullptr;
    const os::Guard guard(lock);
    if (medium::samples.load(memory_order_relaxed) == kNoHeap) {
      Heap* const heap = create();
      if (heap == nullptr) return nullptr;
      // Relaxed: at() acquires the heap by its id.
      medium::samples.store(heap->id(), memory_order_relaxed);
    }
  }
  return at(medium::samples.load(memory_order_relaxed));
}

Heap* common_heap() { return all_share() ? shared.load(memory_order_acquire) : nullptr; }

void abandon(Heap*& holder) {
  const os::Guard guard(lock);
  Heap* const heap = holder;
  holder = nullptr;
  heap->set_abandoned(true);
  heap->next_abandoned = abandoned;
  abandoned = heap;
}

unsigned count() { return heap_count.load(memory_order_acquire); }
unsigned adoptions() { return static_cast<unsigned>(adoption_count.get()); }

// The directory of inboxes is the only table: it has half a megabyte, which counts whole for a
// program that locks its memory.
Heap* at(unsigned id) {
  return static_cast<Heap*>(directory[id].load(memory_order_acquire)->whole());
}

// What is under way is received first. A message that is forwarded comes home in a later round.
void key_messages(size_t behind) {
  if (messages::keyed()) return;
  for (unsigned round = 0; round <= kMaxHops; ++round) {
    for (unsigned id = 1; id <= count(); ++id) {
      const os::Guard guard(at(id)->lock());
      at(id)->drain_all();
    }
  }
  uint64_t secrets[messages::kSecrets];
  os::random_bytes(secrets, sizeof secrets);
  messages::set_key(secrets, behind);
  slab::seal_all();
  for (unsigned id = 1; id <= count(); ++id) at(id)->inbox().rewrite_stub();
}

void prepare_fork() {
  lock.lock();
  for (unsigned id = 1; id <= count(); ++id) at(id)->lock().lock();
}

void finish_fork(bool child) {
  for (unsigned id = 1; id <= count(); ++id) {
    Heap* heap = at(id);
    if (child) heap->repair_inbox();
    heap->lock().after_fork(child);
  }
  lock.after_fork(child);
}

}  // namespace loft::registry
