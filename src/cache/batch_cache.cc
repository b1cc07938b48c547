#include "cache/batch_cache.h"

#include "base/peek.h"
#include "cache/object.h"
#include "os/limits.h"
#include "remote/pack.h"
#include "slab/medium_runs.h"
#include "slab/slab.h"
#include "space/unused.h"

namespace loft::batch_cache {

namespace {

// Relaxed sums over many writers. They are statistics and order nothing.
constinit Atomic<size_t> singles[kSizeClasses];
constinit Atomic<size_t> medium_singles{0};  // bytes

// Where caches have a budget together, a thread collects less for other heaps: at most half of its
// share in open batches, and a quarter in the outbox.
size_t least_of_share(size_t bytes, size_t divisor) {
  if (LOFT_LIKELY(!limits::bounds_caches())) return bytes;
  constexpr size_t kAlways = 1024;
  return least(bytes, most(kAlways, limits::cache_share() / divisor));
}

void open(ThreadCache* thread, size_t slot, uintptr_t base, Entry entry) {
  const SizeClass size_class = class_of_bin(entry.bin());
  const Geometry& shape = geometry(size_class);
  Batch& batch = thread->batches()[slot];
  batch.base = base;
  batch.inverse = shape.inverse;
  batch.start_limit = shape.start_limit;
  const size_t fitting = least_of_share(Profile::kBatchBytes, 2 * kBatches) / shape.size;
  batch.capacity = batch.left = static_cast<uint32_t>(clamp<size_t>(fitting, 1, shape.objects));
  batch.before = 0;
  batch.owner = entry.owner();
  thread->batch_classes[slot] = static_cast<uint8_t>(size_class);
  thread->batch_keys[slot] = entry.index();
  thread->open_batches = static_cast<BatchSlots>(thread->open_batches | 1u << slot);
}

// An empty batch must not name a slab. Once its objects have returned, the slab may be released and
// its metadata reused for another slab.
void close(ThreadCache* thread, size_t slot) {
  thread->batch_keys[slot] = kNoSlab;
  thread->open_batches = static_cast<BatchSlots>(thread->open_batches & ~(1u << slot));
  thread->batches()[slot].capacity = thread->batches()[slot].left = 0;
}

constexpr size_t kNoSlot = kBatches;

// The slots of a slab's set. Both are the same if a set has one slot.
struct BatchSet {
  size_t first, second;
};
constexpr BatchSet slots_of(uint32_t slab) {
  const size_t first = batch_set(slab);
  return {first, kBatchWays == 1 ? first : first + kBatchSets};
}

// The slot of a slab's open batch.
size_t slot_of(const ThreadCache* thread, uint32_t slab) {
  const auto [first, second] = slots_of(slab);
  if (thread->batch_keys[first] == slab) return first;
  return thread->batch_keys[second] == slab ? second : kNoSlot;
}

// Opens the slab's batch in an unused slot, or evicts a batch for it.
size_t make_slot(ThreadCache* thread, uintptr_t base, Entry entry) {
  const auto [first, second] = slots_of(entry.index());
  Batch& in_first = thread->batches()[first];
  Batch& in_second = thread->batches()[second];
  size_t slot = in_first.count() == 0 ? first : second;
  if (in_first.count() != 0 && in_second.count() != 0) {
    const bool second_goes =
        Profile::Eviction::second(first, in_first.gathered(), in_second.gathered());
    slot = second_goes ? second : first;
    send(thread, slot);
    thread->counters.batches_evicted.add(1);
  }
  // Both batches are compared over the time since the younger one was opened. A batch that is not
  // open has no page to write to.
  Batch& other = slot == first ? in_second : in_first;
  if (other.count() != 0) other.before = other.count();
  open(thread, slot, base, entry);
  return slot;
}

// Moves the batch's words into messages. Returns the number of carriers used.
unsigned put_into_outbox(Outbox& outbox, Batch& batch, uint32_t slab, const Geometry& shape) {
  const uint64_t used = used_words(shape, batch.words);
  const unsigned needed = count_bits(used);
  if (Record* space = outbox.reserve(batch.owner, needed); space != nullptr) {
    write_records(slab, batch.words, used, space, outbox.seal_of(batch.owner));
    return 0;
  }
  // An open carrier pays off for later batches if its own batch fills at most half of it.
  const unsigned capacity = record_capacity(shape.size);
  if (2 * needed <= capacity) {
    const unsigned word = lowest_bit(used);
    const size_t object = size_t{word} * 64 + highest_bit(batch.words[word]);
    auto* carrier = reinterpret_cast<Message*>(batch.base + object * shape.size);
    uint64_t seal = begin_seal(carrier);
    write_records(slab, batch.words, used, carrier->records(), &seal);
    outbox.add_open(batch.owner, carrier, needed, capacity, seal);
    return 1;
  }
  unsigned messages = 0;
  pack(batch.base, shape, batch.words, used, [&](Message* message) {
    outbox.add(batch.owner, message);
    ++messages;
  });
  return messages;
}

void count_batch(ThreadCache* thread, SizeClass size_class, size_t objects) {
  thread->counters.batches_sent.add(1);
  thread->counters.batch_objects[size_class].add(objects);
  thread->counters.net_bytes.add(-objects * geometry(size_class).size);
}

void tell(ThreadCache* thread) {
  unused::tell(thread->untold_bytes);
  thread->untold_bytes = 0;
}

// After `bytes` bytes went into the outbox: posts it if it holds enough. Tells space/unused.h after
// each `step` bytes.
void post_if_due(ThreadCache* thread, size_t bytes, ptrdiff_t step = unused::kSlabStep) {
  thread->untold_bytes += static_cast<uint32_t>(bytes);
  if (LOFT_UNLIKELY(thread->untold_bytes >= step)) tell(thread);
  if (thread->outbox.add_bytes(bytes, least_of_share(Profile::kOutboxBytes, 4))) {
    thread->counters.posts.add(thread->outbox.post());
  }
}

// The record of one object. Changes no state. As in add_to_batch, p lies in the slab at `base`
// unless it was freed twice and another slab has the metadata of its own by now.
Record record_of(const void* p, Entry entry, uintptr_t base) {
  const Geometry& shape = geometry(class_of_bin(entry.bin()));
  const Product product = product_of(reinterpret_cast<uintptr_t>(p) - base, shape.inverse);
  if (LOFT_UNLIKELY(!starts_in(product, shape.start_limit))) report_bad_free(p);
  const auto index = static_cast<uint32_t>(index_in(product));
  return Record{entry.index(), index / 64, uint64_t{1} << index % 64};
}

// Tries to add an object, as a batch of one, to a message that already waits for its owner. A new
// batch would evict an open one: a thread that frees objects of very many slabs gathers hardly more
// than one object per batch, and pays for opening and sending it. False if the object must go into
// a batch:
// (a) its slab comes twice in a row;
// (b) the slab's set has an unused slot;
// (c) every kBatchEvery-th time, so that the objects in open batches return eventually;
// (d) no message with space waits for the owner.
bool send_as_record(ThreadCache* thread, const void* p, Entry entry, const Record& record) {
  constexpr uint8_t kBatchEvery = 7;    // odd: a periodic program then reaches all sets
  constexpr unsigned kLongMessage = 8;  // records; shorter messages are not worth their carrier
  const bool again = thread->missed_slab == entry.index();
  thread->missed_slab = entry.index();
  if (again) {
    // A double free in a row: the first one was sent as a record.
    if (LOFT_UNLIKELY(thread->outbox.holds(entry.owner(), record))) report_bad_free(p);
    return false;
  }
  const auto [first, second] = slots_of(entry.index());
  if (thread->batch_keys[first] == kNoSlab || thread->batch_keys[second] == kNoSlab) return false;
  if (++thread->misses % kBatchEvery == 0) return false;
  Record* const space = thread->outbox.reserve(entry.owner(), 1, kLongMessage);
  if (space == nullptr) return false;
  const SizeClass size_class = class_of_bin(entry.bin());
  count_batch(thread, size_class, 1);
  write_record(record, space, thread->outbox.seal_of(entry.owner()));
  post_if_due(thread, class_size(size_class));
  return true;
}

}  // namespace

void add(ThreadCache* thread, void* p, Entry entry) {
  size_t slot = slot_of(thread, entry.index());
  const bool is_open = slot != kNoSlot;
  const uintptr_t base = is_open ? thread->batches()[slot].base : slab::base_of(p, entry);
  const Record record = record_of(p, entry, base);
  if (!is_open) {
    if (send_as_record(thread, p, entry, record)) return;
    slot = make_slot(thread, base, entry);
  }
  Batch& batch = thread->batches()[slot];
  uint64_t& word = batch.words[record.word];
  if (LOFT_UNLIKELY((word & record.freed) != 0)) report_bad_free(p);
  word |= record.freed;
  if (--batch.left == 0) send(thread, slot);
}

void send(ThreadCache* thread, size_t slot) {
  Batch& batch = thread->batches()[slot];
  const SizeClass size_class = thread->batch_classes[slot];
  const Geometry& shape = geometry(size_class);
  const uint32_t slab = thread->batch_keys[slot];
  const uint32_t objects = batch.count();
  close(thread, slot);
  count_batch(thread, size_class, objects);
  thread->counters.batch_messages.add(put_into_outbox(thread->outbox, batch, slab, shape));
  post_if_due(thread, size_t{objects} * shape.size);
}

void send_all(ThreadCache* thread) {
  while (thread->open_batches != 0) send(thread, lowest_bit(thread->open_batches));
  if (!thread->outbox.empty()) thread->counters.posts.add(thread->outbox.post());
  if (thread->untold_bytes != 0) tell(thread);
}

void send_single(void* p, Entry entry) {
  const Slab* slab = slab::at(entry);
  const uint32_t index = slab->object_starting_at(p);
  if (index == kNoObject) report_bad_free(p);
  singles[slab->size_class].fetch_add(1, memory_order_relaxed);
  unused::tell(slab->shape().size);
  uint64_t words[kMaxWords];
  words[index / 64] = uint64_t{1} << index % 64;
  pack(slab->base, slab->shape(), words, uint64_t{1} << index / 64,
       [](Message* message) { deliver({message, message}); });
}

void send_single(ThreadCache* thread, void* p, Entry entry) {
  thread->counters.net_bytes.add(-class_size(class_of_bin(entry.bin())));
  send_single(p, entry);
}

// The owner may change before the message arrives, which is then forwarded.
void send_medium(ThreadCache* thread, void* p) {
  const Entry entry = pagemap.of(p);
  const size_t bytes = medium::run_at(entry)->bytes_of(p);
  thread->outbox.add(entry.owner(), write_alone(p));
  thread->counters.medium_sent.add(bytes);
  thread->counters.net_bytes.add(-bytes);
  post_if_due(thread, bytes, unused::kRunStep);
}

void send_single_medium(void* p) {
  const size_t bytes = medium::run_at(pagemap.of(p))->bytes_of(p);
  medium_singles.fetch_add(bytes, memory_order_relaxed);
  unused::tell(bytes);
  Message* const message = write_alone(p);
  deliver({message, message});
}

size_t medium_sent_singly() { return medium_singles.load(memory_order_relaxed); }

size_t sent_singly(SizeClass size_class) { return singles[size_class].load(memory_order_relaxed); }

void count_open(const ThreadCache* thread, size_t* objects) {
  for (unsigned open = peek(thread->open_batches); open != 0; open &= open - 1) {
    const size_t slot = lowest_bit(open);
    const uint32_t capacity = peek(thread->batches()[slot].capacity);
    const uint32_t left = peek(thread->batches()[slot].left);
    if (left < capacity) objects[peek(thread->batch_classes[slot])] += capacity - left;
  }
}

}  // namespace loft::batch_cache
