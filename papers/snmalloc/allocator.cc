#include "snmalloc/allocator.h"

#include "base/bits.h"
#include "os/fault.h"
#include "snmalloc/large.h"

namespace snmalloc {

void* Allocator::allocate_more(size_t bytes) {
  if (bytes <= size_of_class(kClasses - 1)) {
    return medium_.allocate(class_of_size(bytes), tally_.swaps);
  }
  return allocate_large(kChunk, bytes, tally_.swaps);
}

// size_classes.h says why a size that is a multiple of the alignment is enough.
void* Allocator::allocate_aligned(size_t alignment, size_t bytes) {
  if (bytes <= kChunk && alignment <= kChunk) return allocate(loft::round_up(bytes, alignment));
  look();
  return allocate_large(alignment, bytes, tally_.swaps);
}

void Allocator::release(void* p) {
  look();
  const auto object = reinterpret_cast<uintptr_t>(p);
  const ChunkKind kind = is_mapped(object) ? kind_of(object) : ChunkKind::unknown();
  if (LOFT_LIKELY(kind == ChunkKind::super())) {
    Allocator* const owner = header_of(object)->owner;
    if (LOFT_LIKELY(owner == this)) return small_.take_back(object, tally_.swaps);
    return release_remote(object, owner, size_of_object(object, kind), true);
  }
  if (kind == ChunkKind::medium()) {
    Allocator* const owner = header_of(object)->owner;
    if (owner == this) return medium_.take_back(object, tally_.swaps);
    return release_remote(object, owner, size_of_object(object, kind), false);
  }
  if (kind == ChunkKind::unknown()) {
    loft::os::fault(loft::Text() << "free of " << p << ", which is no object");
  }
  release_large(p, tally_.swaps);
}

void Allocator::release_remote(uintptr_t object, Allocator* owner, size_t bytes, bool small) {
  tally_.frees_remote.add(1);
  const bool at_once = parameters.outbox_bytes == 0;
  if (Config::kBatches && small && parameters.batches && !at_once) {
    collect(object);
  } else {
    Message::write(object, owner);
    // A message of its own to its very owner: nothing is forwarded.
    if (at_once) return send({object, object, 1}, tally_.sent);
    outgoing_.add(object, owner);
  }
  outgoing_.count(bytes);
  if (LOFT_UNLIKELY(outgoing_.is_over())) flush();
}

// What is collected counts as outgoing (BatchIt 2).
void Allocator::collect(uintptr_t object) {
  const Batch evicted = cache_.add(object);
  if (LOFT_LIKELY(evicted.count == 0)) return;
  tally_.evictions.add(1);
  dispatch(evicted);
}

void Allocator::dispatch(const Batch& batch) {
  tally_.batches.add(1);
  tally_.batch_objects.add(batch.count);
  Links::set_ring(batch.tail, Ring(batch.tail, batch.head, batch.count));
  outgoing_.add(batch.tail, header_of(batch.tail)->owner);
}

void Allocator::flush() {
  if constexpr (Config::kBatches) {
    cache_.empty([&](const Batch& batch) { dispatch(batch); });
  }
  outgoing_.flush(tally_.sent);
}

void Allocator::take_in() {
  for (uint64_t left = parameters.budget; left != 0; --left) {
    const uintptr_t message = incoming_.take();
    if (message == 0) break;
    if (LOFT_LIKELY(!incoming_.is_stub(message))) receive(message);
  }
  if (outgoing_.is_over()) flush();
}

void Allocator::receive(uintptr_t message) {
  const ChunkKind kind = header_of(message)->kind;
  Allocator* const owner = Message::owner(message);
  if (LOFT_UNLIKELY(owner != this)) {
    tally_.forwarded.add(1);
    outgoing_.count(size_of_object(message, kind) * Message::objects(message));
    return outgoing_.add(message, owner);
  }
  tally_.received.add(1);
  if (kind == ChunkKind::medium()) return medium_.take_back(message, tally_.swaps);
  if constexpr (Config::kBatches) {
    const Ring ring = Links::ring(message);
    if (Config::kChecks && ring.count() > SmallHeap::used(message)) {
      KeyedLinks::corrupted(message);
    }
    return small_.take_back(ring.head(message), message, ring.count(), tally_.swaps);
  }
  small_.take_back(message, tally_.swaps);
}

void Allocator::rest() {
  look();
  flush();
}

}  // namespace snmalloc
