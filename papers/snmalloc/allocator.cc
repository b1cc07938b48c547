#include "snmalloc/allocator.h"

#include "base/bits.h"
#include "os/fault.h"
#include "snmalloc/large.h"

namespace snmalloc {

unsigned queue_of(uintptr_t message) {
  return header_of(message)->kind == ChunkKind::super() ? SmallHeap::class_of(message)
                                                        : kQueues - 1;
}

void* Allocator::allocate_more(size_t bytes) {
  const bool is_medium = bytes <= size_of_class(kClasses - 1);
  const unsigned size_class = is_medium ? class_of_size(bytes) : kClasses;
  if (goes_by_path() && !(is_medium && medium_.has_free(size_class))) look_for(size_class);
  if (is_medium) return medium_.allocate(size_class, tally_.swaps);
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
  if (LOFT_UNLIKELY(outgoing_.is_over())) {
    look_around();
    flush();
  }
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

uint64_t Allocator::take_from(RemoteQueue& queue, uint64_t most) {
  uint64_t taken = 0;
  while (taken != most) {
    const uintptr_t message = queue.take();
    if (message == 0) break;
    if (LOFT_UNLIKELY(queue.is_stub(message))) continue;
    receive(message);
    ++taken;
  }
  return taken;
}

uint64_t Allocator::take_budget(RemoteQueue& queue) {
  const uint64_t taken = take_from(queue, queue.budget());
  queue.note_look();
  return taken;
}

uint64_t Allocator::take_all() {
  uint64_t taken = 0;
  for_each_queue([&](RemoteQueue& queue) { taken += take_from(queue, UINT64_MAX); });
  return taken;
}

void Allocator::finish_look(uint64_t taken) {
  tally_.looks.note(taken);
  if (outgoing_.is_over()) flush();
}

void Allocator::take_in() { finish_look(take_budget(incoming_)); }

// The class has no object at hand. The slower the path, the more a call takes in, as snmalloc's
// issue 728 proposes: the budget, then until the class has an object, and all before the next
// chunk.
void Allocator::look_for(unsigned size_class) {
  const bool is_small = size_class < kSmallClasses;
  const auto has_free = [&] {
    if (is_small) return small_.has_free(size_class);
    return size_class < kClasses && medium_.has_free(size_class);
  };
  RemoteQueue& queue = incoming(is_small ? size_class : kQueues - 1);
  uint64_t taken = take_budget(queue);
  while (queue.has_any() && !has_free()) taken += take_from(queue, 1);
  if (!has_free() && !(is_small && small_.has_free_slab())) taken += take_all();
  finish_look(taken);
}

// A thread that frees and allocates nothing, or other classes, takes in a queue now and then.
void Allocator::look_around() {
  if (!parameters.by_class) return;
  RemoteQueue& queue = queues_[next_queue_++ % kQueues];
  if (queue.has_any()) tally_.looks.note(take_budget(queue));
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
  take_all();
  flush();
}

}  // namespace snmalloc
