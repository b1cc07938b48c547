// Around a fork. The child has one thread; what other threads were doing is cut off at a point that
// nobody chose, and their heaps go to the pool.
//
// What the child may believe. A store reaches memory that the child will have, or it faults and
// waits until the copy is complete. So of each thread's stores the child has those up to some one,
// and with a store that another processor has seen, all before it. It may rely on the order of a
// thread's stores, which compiler fences keep:
//
//   lists      Each is whole at every point, and an object that passes from one to another is in
//              none in between (slab.h). In hand, and lost: at most an object, a claimed list, or a
//              batch that was being sent.
//   used       It is raised before an object leaves a list and lowered after it has come home. One
//              that is too high keeps a slab for ever; none is too low, so that no slab goes away
//              with an object in use.
//   made       It is raised before its objects are in a list.
//   batches    A place with a slab has a whole list; it is empty before its objects are sent.
//   pagemap    A slab's entries come after its record, the last one last, and before its objects;
//              they go, the first one first, when all objects are home.
//   all heaps  under the pool's lock, which the fork holds
//
// Queues are linked both ways, and therefore not believed: they are made anew from the pagemap,
// those of the calling thread's heap, too. That also finds the slabs whose notice was in the hand
// of a thread that is no more: the child watches every slab.
#include "engine/engine.h"
#include "pages/pool.h"
#include "space/window.h"

namespace engine {

namespace {

void readopt_all() {
  const uintptr_t end = loft::window.heap.end;
  for (uintptr_t at = loft::window.heap.base; at != 0 && at < end; at += loft::kGranule) {
    if (at >= end || !loft::pagemap.contains(reinterpret_cast<void*>(at))) break;
    const loft::Entry entry = loft::pagemap.of(reinterpret_cast<void*>(at));
    if (!entry.is_slab()) continue;
    pages::Slab* const slab = pages::slab_at(entry);
    if (slab->base != at) continue;  // not its first granule
    const uintptr_t last = at + (pages::granules_of(slab->size_class) - 1) * loft::kGranule;
    // Else its thread was still filling the entries: it has no object yet.
    if (loft::pagemap.of(reinterpret_cast<void*>(last)).word() != entry.word()) continue;
    slab->heap->readopt(slab);
  }
}

}  // namespace

void prepare_fork() { pages::lock_pool(); }

void finish_fork(bool child) {
  if (!child) return pages::unlock_pool();
  for (pages::Heap* heap = pages::first_heap(); heap != nullptr; heap = heap->next) {
    heap->forget_queues();
  }
  readopt_all();
  pages::pool_all_but(pages::mine.heap);
}

}  // namespace engine
