#include "heap/heap.h"

#include "base/options.h"
#include "heap/registry.h"
#include "message/outbox.h"
#include "os/fault.h"

namespace loft {

namespace {

// Bounds even a full drain: senders that are faster than we are must not hold us for ever.
constexpr size_t kDrainAllBytes = size_t{1} << 30;

// A carrier lies in freed memory: what a use after free may have written there is checked before it
// is believed.
[[noreturn]] void report_damaged(const Message* message, const Slab* slab) {
  slab::report_misuse("write after free: damaged message in", message, slab);
}

bool outside_window(const Message* message) {
  return !pagemap.contains(message) || !pagemap.of(message).is_slab();
}

}  // namespace

unsigned Heap::refill(SizeClass size_class, void** slots, unsigned wanted) {
  counters_.refills.add(1);
  if (inbox_.maybe_pending()) drain(get(options.drain_bytes));
  return take(size_class, slots, wanted);
}

unsigned Heap::take(SizeClass size_class, void** slots, unsigned wanted) {
  unsigned taken = 0;
  List<Slab>& list = available_[size_class];
  while (taken < wanted && !list.empty()) {
    Slab* slab = list.front();
    taken += slab->take(slots - taken, wanted - taken);
    if (slab->free == 0) {
      list.remove(slab);
      slab->listed = false;
    }
    slab->check();
  }
  counters_.allocated_bytes.add(taken * class_size(size_class));
  return taken;
}

// Looks for messages that the bounded drain left behind, then asks heaps that nobody owns to let go
// of what they hold, then takes new memory.
unsigned Heap::refill_from_new(SizeClass size_class, void** slots, unsigned wanted) {
  if (inbox_.maybe_pending()) {
    inbox_.complete();  // the refill has drained before
    drain(get(options.drain_bytes));
    if (const unsigned taken = take(size_class, slots, wanted); taken != 0) return taken;
  }
  registry::drain_parked();
  Slab* slab = slab::create(size_class, id_);
  if (slab == nullptr) return 0;
  counters_.slabs_created.add(1);
  counters_.slab_bytes.add(size_t{slab->shape().granules} << kGranuleLog);
  slab->listed = true;
  available_[size_class].push_front(slab);
  return take(size_class, slots, wanted);
}

// After objects came back to `slab`: lists it, or lets it go when it is wholly free and another
// slab of its class can serve the next refill.
void Heap::settle(Slab* slab) {
  List<Slab>& list = available_[slab->size_class];
  if (!slab->listed) {
    slab->listed = true;
    list.push_front(slab);
  }
  slab->check();
  if (LOFT_UNLIKELY(slab->empty()) && slab->next != slab->prev) {
    list.remove(slab);
    slab->listed = false;
    counters_.slabs_released.add(1);
    counters_.slab_bytes.add(-(size_t{slab->shape().granules} << kGranuleLog));
    slab::destroy(slab);
  }
}

void Heap::put_word(Slab* slab, unsigned word, uint64_t freed) {
  // The slack behind the last object is as long as an object at most: an address in it looks like
  // one.
  const size_t last = size_t{word} * 64 + highest_bit(freed);
  if (LOFT_UNLIKELY(last >= slab->shape().objects)) {
    slab::report_misuse("free of an address behind the last object",
                        reinterpret_cast<const void*>(slab->base + last * slab->shape().size),
                        slab);
  }
  const unsigned objects = count_bits(freed);
  slab->put_word(word, freed, objects);
  counters_.allocated_bytes.add(-(objects * size_t{slab->shape().size}));
  settle(slab);
}

size_t Heap::receive(Message* message, unsigned first_word) {
  Slab* slab = slab::at(pagemap.of(message));
  const Geometry& shape = slab->shape();
  if (LOFT_UNLIKELY(first_word >= shape.words)) report_damaged(message, slab);
  const unsigned count = least<unsigned>(shape.carrier_words, shape.words - first_word);
  unsigned objects = 0;
  uint64_t summary = 0;
  for (unsigned i = 0; i < count; ++i) {
    const uint64_t freed = message->words()[i];
    if (freed == 0) continue;
    const uint64_t before = slab->bits[first_word + i];
    if (LOFT_UNLIKELY((before & freed) != 0)) {
      slab->report_double_free(first_word + i, before & freed);
    }
    slab->bits[first_word + i] = before | freed;
    summary |= uint64_t{1} << (first_word + i);
    objects += count_bits(freed);
  }
  slab->summary |= summary;
  slab->free += objects;
  // Bits beyond the last object make the sum too large, or stand in the last word.
  const unsigned tail = shape.objects % 64;
  if (LOFT_UNLIKELY(objects == 0 || (tail != 0 && slab->bits[shape.words - 1] >> tail != 0))) {
    report_damaged(message, slab);
  }
  settle(slab);
  const size_t bytes = objects * size_t{shape.size};
  counters_.messages_received.add(1);
  counters_.objects_received.add(objects);
  counters_.allocated_bytes.add(-bytes);
  return bytes;
}

bool Heap::drain(size_t budget) {
  Forwarder forwarder(id_);
  const bool more = inbox_.drain(budget, [&](Message* message, unsigned first_word) -> size_t {
    if (LOFT_UNLIKELY(outside_window(message))) {
      os::fault(Text() << "write after free: a message of returned objects leads to "
                       << static_cast<const void*>(message) << ", which is no object of loft");
    }
    const HeapId owner = destination(message);
    if (LOFT_LIKELY(owner == id_)) return receive(message, first_word);
    message->link.store(end_link(first_word), memory_order_relaxed);
    forwarder.add(owner, message);
    return kGranule;  // forwarding is work too: a drain stays bounded
  });
  counters_.drains.add(1);
  if (LOFT_UNLIKELY(forwarder.messages() != 0)) {
    counters_.forwards.add(forwarder.messages());
    counters_.posts.add(forwarder.post());
  }
  return more;
}

void Heap::drain_all() {
  // The stub may be queued from before, with messages behind it: drained first, it can be queued
  // anew.
  drain(kDrainAllBytes);
  inbox_.complete();
  drain(kDrainAllBytes);
}

void Heap::check() const {
  if (!kDebug) return;
  for (const List<Slab>& list : available_) {
    for (const Slab* slab = list.front(); slab != nullptr; slab = slab->next) {
      LOFT_CHECK(slab->owner == id_ && slab->listed);
      slab->check();
    }
  }
}

}  // namespace loft
