// What comes home: a heap takes in the messages of its inbox. Each lies in a freed object, and says
// of which others with it; what a use after free, or a second free, may have made of that is
// checked before it is believed.
#include "base/options.h"
#include "base/peek.h"
#include "heap/heap.h"
#include "os/fault.h"
#include "remote/outbox.h"
#include "remote/pack.h"

namespace loft {

namespace {

// What a message costs a drain's budget at least: many of one small object each are work as well.
constexpr size_t kLeastCharge = 512;

// Bounds even a full drain: senders that are faster than we are must not hold us for ever.
constexpr size_t kDrainAllBytes = size_t{1} << 30;

bool is_in_a_slab(const Message* message) {
  const uint64_t position = pagemap.position(message);
  return pagemap.limit.contains(position) && pagemap.at_position(position).is_slab();
}

// A double free as well: it lets a slab go too early, and messages then tell of what is not there.
[[noreturn]] LOFT_COLD void report_damaged(const Message* message) {
  slab::report_misuse("double free or write after free: damaged message in", message,
                      slab::at(pagemap.of(message)));
}

// Whether a message may be where the link leads. What a program writes after a free mostly has no
// tag, its pointers among it.
bool leads_to_a_message(uint64_t link) { return tag_in(link) != 0 && is_in_a_slab(next_in(link)); }

LOFT_COLD Text cut_behind(const Message* message, uint64_t link) {
  Text what;
  what << "write after free: " << reinterpret_cast<const void*>(link)
       << " stands where the link was of the message of returned objects in";
  return slab::misuse(what.data(), message, slab::at(pagemap.of(message)));
}

// No program reaches the stub: what came next had come home before.
Text cut_behind_stub(uint64_t link) {
  Text line;
  line << "double free: no slab is left around the message of returned objects in "
       << static_cast<const void*>(next_in(link));
  return line;
}

// The queue is cut behind `message`. Returns if the program is to go on, without the objects that
// were on their way behind it.
LOFT_COLD void report_cut(const Message* message, uint64_t link) {
  const Text line = is_in_a_slab(message) ? cut_behind(message, link) : cut_behind_stub(link);
  if (get(options.foreign) == 0) os::fault(line);
  os::report(line);
}

// One of the two: which one cannot be told.
[[noreturn]] LOFT_COLD void report_returned_twice(const Message* message, const Slab* slab,
                                                  unsigned word, uint64_t twice) {
  const size_t object = (size_t{word} * 64 + lowest_bit(twice)) * slab->shape().size;
  Text what;
  what << "double free of " << reinterpret_cast<const void*>(slab->base + object)
       << ", or write after free to the message that brought it, in";
  slab::report_misuse(what.data(), message, slab);
}

// The objects of one word that the message has brought.
void put_received(const Message* message, Slab* slab, unsigned word, uint64_t freed,
                  unsigned count) {
  const uint64_t twice = slab->bits[word] & freed;
  if (LOFT_UNLIKELY(twice != 0)) report_returned_twice(message, slab, word, twice);
  slab->put_word(word, freed, count);
}

// The entry of the slab that a record names, if there is one and it has the word; otherwise one
// that is no slab's.
Entry slab_of(const Record& record) {
  if (!metadata::contains(record.slab)) return Entry{};
  const auto* slab = metadata::at_index<Slab>(record.slab);
  const void* base = reinterpret_cast<const void*>(slab->base);
  if (!pagemap.contains(base)) return Entry{};
  const Entry entry = pagemap.of(base);
  const bool valid = entry.is_slab() && entry.index() == record.slab &&
                     record.word < slab->shape().words && record.freed != 0 &&
                     !beyond_last_object(slab->shape(), record.word, record.freed);
  return valid ? entry : Entry{};
}

}  // namespace

void Heap::receive_bitmap(Message* message, Tag tag, Slab* slab, Received& received) {
  const Geometry& shape = slab->shape();
  const unsigned first_word = first_word_in(tag);
  const unsigned end = first_word + word_count_in(tag);
  if (LOFT_UNLIKELY(end > shape.words || !carries_itself(message, first_word, end, slab))) {
    report_damaged(message);
  }
  unsigned objects = 0;
  for (unsigned word = first_word; word < end; ++word) {
    const uint64_t freed = message->words()[word - first_word];
    if (freed == 0) continue;
    if (LOFT_UNLIKELY(beyond_last_object(shape, word, freed))) report_damaged(message);
    const unsigned count = count_bits(freed);
    put_received(message, slab, word, freed, count);
    objects += count;
  }
  if (LOFT_UNLIKELY(objects == 0)) report_damaged(message);
  counters_.classes[slab->size_class].received.add(objects);
  received.bytes += objects * size_t{shape.size};
  settle(slab);
}

// What a record says, as a message of its own: for the heap that has taken the slab over since it
// was sent.
Message* message_of(const Record& record, const Slab& slab) {
  const size_t object = size_t{record.word} * 64 + highest_bit(record.freed);
  auto* message = reinterpret_cast<Message*>(slab.base + object * slab.shape().size);
  message->words()[0] = record.freed;
  message->link.store(end_link(message, bitmap_tag(record.word, 1)), memory_order_relaxed);
  return message;
}

// From the last record to the first: the carrier's own slab is named by the first ones, so that it
// is not let go, and the carrier with it, before all others have been read.
void Heap::receive_records(Message* message, unsigned count, Forwarder& forwarder,
                           Received& received) {
  const Slab* carrier = slab::at(pagemap.of(message));
  // No more than fit into an object, and in one: behind a slab there need not be memory.
  if (LOFT_UNLIKELY(count - 1 >= record_capacity(carrier->shape().size) ||
                    carrier->object_starting_at(message) == kNoObject)) {
    report_damaged(message);
  }
  while (count-- != 0) {
    const Record record = message->records()[count];
    const Entry entry = slab_of(record);
    if (LOFT_UNLIKELY(!entry.is_slab())) report_damaged(message);
    Slab* slab = slab::at(entry);
    if (LOFT_UNLIKELY(entry.owner() != id_)) {
      // Only if it or the carrier's slab was another's when the message was written.
      if (!peek(slab->moved) && !carrier->moved) report_damaged(message);
      forwarder.add(entry.owner(), message_of(record, *slab));
      continue;
    }
    const unsigned objects = count_bits(record.freed);
    put_received(message, slab, record.word, record.freed, objects);
    counters_.classes[slab->size_class].received.add(objects);
    received.bytes += objects * size_t{slab->shape().size};
    // It would be let go while its carrier has more to say.
    if (LOFT_UNLIKELY(slab == carrier && slab->empty() && count != 0)) report_damaged(message);
    settle(slab);
  }
}

bool Heap::drain(size_t budget, size_t record_charge) {
  Forwarder forwarder(id_);
  Received received;
  const auto check = [](const Message* message, uint64_t link) {
    if (LOFT_LIKELY(leads_to_a_message(link))) return true;
    report_cut(message, link);
    return false;
  };
  const bool more = inbox_.drain(budget, check, [&](Message* message, Tag tag) -> size_t {
    const Entry entry = pagemap.of(message);
    if (LOFT_UNLIKELY(entry.owner() != id_)) {
      message->link.store(end_link(message, tag), memory_order_relaxed);
      forwarder.add(entry.owner(), message);
      return kGranule;  // forwarding is work too: a drain stays bounded
    }
    const size_t bytes_before = received.bytes;
    size_t least_charge = kLeastCharge;
    ++received.messages;
    if (has_records(tag)) {
      least_charge = most(least_charge, record_count_in(tag) * record_charge);
      receive_records(message, record_count_in(tag), forwarder, received);
    } else {
      receive_bitmap(message, tag, slab::at(entry), received);
    }
    return most(received.bytes - bytes_before, least_charge);
  });
  if (received.messages != 0) rested_.store(false, memory_order_relaxed);
  counters_.drains.add(1);
  counters_.messages_received.add(received.messages);
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

void Heap::repair_inbox() {
  inbox_.repair([](const Message*, uint64_t link) { return leads_to_a_message(link); });
}

// As drain_all, in steps. False if somebody waits.
bool Heap::take_in(const os::Lock* awaited) {
  constexpr size_t kStep = size_t{1} << 20;
  for (int round = 0; round < 2; ++round) {
    while (drain(kStep)) {
      if (lock_.has_sleepers() || (awaited != nullptr && awaited->has_sleepers())) return false;
    }
    inbox_.complete();
  }
  return true;
}

}  // namespace loft
