// The engine of slabs with queues of messages of their own: what engine.h asks for. README.md says
// which section of the BatchIt paper each part follows, and what the paper leaves open.
#include "base/bits.h"
#include "base/macros.h"
#include "base/size_class.h"
#include "engine/engine.h"
#include "pages/pool.h"
#include "space/pagemap.h"
#include "space/span.h"

namespace engine {

namespace {

using pages::Heap;

// A span of its own: the entry's index holds its length in granules.
void* allocate_span(size_t alignment, size_t bytes) {
  const size_t granules = loft::round_up(bytes, loft::kGranule) >> loft::kGranuleLog;
  if (granules > UINT32_MAX || !loft::span::initialise()) return nullptr;
  const loft::span::Range range =
      loft::span::acquire(granules, loft::most(alignment, loft::kGranule));
  if (range.base == 0) return nullptr;
  loft::pagemap.fill(range.base, granules,
                     loft::Entry(loft::kNoHeap, loft::kLarge, static_cast<uint32_t>(granules)));
  return reinterpret_cast<void*>(range.base);
}

void release_span(void* p, loft::Entry entry) {
  const auto base = reinterpret_cast<uintptr_t>(p);
  const size_t granules = entry.index();
  loft::pagemap.fill(base, granules, loft::Entry{});
  loft::span::release(base, granules, true);
}

void* allocate_class(loft::SizeClass c) {
  if (Heap* const heap = pages::my_heap(); LOFT_LIKELY(heap != nullptr)) return heap->allocate(c);
  const pages::Borrowed borrowed;
  return borrowed.heap() == nullptr ? nullptr : borrowed.heap()->allocate(c);
}

LOFT_COLD void release_without_heap(pages::Slab* slab, pages::Object* p, loft::HeapId owner) {
  const pages::Borrowed borrowed;
  if (Heap* const heap = borrowed.heap(); heap != nullptr) {
    return heap->release(slab, p, owner == heap->id);
  }
  pages::Tally uncounted;
  pages::send_alone(slab, p, uncounted);
}

}  // namespace

void* allocate(size_t bytes) {
  return LOFT_LIKELY(bytes <= loft::kSmallMax) ? allocate_class(loft::class_of(bytes))
                                               : allocate_span(loft::kGranule, bytes);
}

// A slab is aligned to a granule: all objects of a class are aligned to what divides their size.
void* allocate_aligned(size_t alignment, size_t bytes) {
  if (alignment > loft::kSmallMax || bytes > loft::kSmallMax) {
    return allocate_span(alignment, bytes);
  }
  loft::SizeClass c = loft::class_of(loft::round_up(bytes, alignment));
  while (loft::class_size(c) % alignment != 0) ++c;  // a power of two at the latest
  return allocate_class(c);
}

void release(void* p) {
  const loft::Entry entry = loft::pagemap.of(p);
  if (LOFT_UNLIKELY(!entry.is_slab())) return release_span(p, entry);
  pages::Slab* const slab = pages::slab_at(entry);
  auto* const object = static_cast<pages::Object*>(p);
  Heap* const heap = pages::my_heap();
  if (LOFT_UNLIKELY(heap == nullptr)) return release_without_heap(slab, object, entry.owner());
  heap->release(slab, object, entry.owner() == heap->id);
}

size_t usable_size(const void* p) {
  const loft::Entry entry = loft::pagemap.of(p);
  return entry.is_slab() ? loft::class_size(loft::class_of_bin(entry.bin()))
                         : size_t{entry.index()} << loft::kGranuleLog;
}

size_t zero_bytes(const void*) { return 0; }

Counts counts() {
  Counts sum;
  for (const Heap* heap = pages::first_heap(); heap != nullptr; heap = heap->next) {
    const pages::Tally& tally = heap->tally;
    sum.frees_remote += tally.frees_remote.get();
    sum.messages += tally.messages.get();
    sum.swaps += tally.swaps.get();
    sum.swap_retries += tally.swap_retries.get();
    sum.received += tally.received.get();
    sum.batches += tally.batches.get();
    sum.batch_objects += tally.batch_objects.get();
    sum.evictions += tally.evictions.get();
  }
  sum.locks = pages::the_pool_lock().acquired();
  sum.lock_waits = pages::the_pool_lock().waits();
  return sum;
}

}  // namespace engine
