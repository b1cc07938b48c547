// A heap receives the messages of its inbox. A message lies in a freed object, and lists the
// objects freed with it. A use after free or a double free may have overwritten it, so the heap
// checks it before use.
#include "base/options.h"
#include "base/peek.h"
#include "heap/heap.h"
#include "os/fault.h"
#include "remote/outbox.h"
#include "remote/pack.h"

namespace loft {

namespace {

// A message takes at least this of a drain's budget: many messages of one small object are work
// too.
constexpr size_t kLeastCharge = 512;

// Bounds even a full drain: faster senders must not hold the heap for ever.
constexpr size_t kDrainAllBytes = size_t{1} << 30;

Entry entry_of(const Message* message) {
  const uint64_t position = pagemap.position(message);
  return pagemap.limit.contains(position) ? pagemap.at_position(position) : Entry{};
}

bool is_in_a_slab(const Message* message) { return entry_of(message).is_slab(); }

// A double free can also lead here: the slab is released too early, and messages then name objects
// that do not exist.
[[noreturn]] LOFT_COLD void report_damaged(const Message* message) {
  if (const Entry entry = pagemap.of(message); entry.bin() == kMedium) {
    medium::report_misuse("double free of, or write after free to,", message,
                          medium::run_at(entry));
  }
  slab::report_misuse("double free or write after free: damaged message in", message,
                      slab::at(pagemap.of(message)));
}

// Whether a message may lie where the link leads. Data written after a free, pointers included,
// mostly has no tag.
bool leads_to_a_message(uint64_t link) {
  const Entry entry = entry_of(next_in(link));
  return tag_in(link) != 0 && (entry.is_slab() || entry.bin() == kMedium);
}

LOFT_COLD Text cut_behind(const Message* message, uint64_t link) {
  Text what;
  what << "write after free: " << reinterpret_cast<const void*>(link)
       << " stands where the link was of the message of returned objects in";
  return slab::misuse(what.data(), message, slab::at(pagemap.of(message)));
}

Text cut_behind_medium(const Message* message, uint64_t link) {
  Text line;
  line << "write after free: " << reinterpret_cast<const void*>(link)
       << " stands at the start of the freed object " << static_cast<const void*>(message);
  return line.about(message);
}

// The program cannot write to the stub. So the object with the next message had come back before,
// and its slab was released.
Text cut_behind_stub(uint64_t link) {
  Text line;
  line << "double free: no slab is left around the message of returned objects in "
       << static_cast<const void*>(next_in(link));
  return line;
}

// The message has no seal, or the seal of another time or place.
[[noreturn]] LOFT_COLD void report_forged(const Message* message) {
  constexpr const char* kWhat = "write after free: forged or stale message in";
  if (const Entry entry = pagemap.of(message); entry.bin() == kMedium) {
    medium::report_misuse(kWhat, message, medium::run_at(entry));
  }
  slab::report_misuse(kWhat, message, slab::at(pagemap.of(message)));
}

// The link of `message` was overwritten. Returns if the program is to continue. The inbox then
// drops this message and those behind it.
LOFT_COLD void report_cut(const Message* message, uint64_t link) {
  if (messages::keyed()) link = message->link.load(memory_order_relaxed);  // as it stands there
  const Text line = is_in_a_slab(message)                ? cut_behind(message, link)
                    : entry_of(message).bin() == kMedium ? cut_behind_medium(message, link)
                                                         : cut_behind_stub(link);
  if (get(options.misuse) == kMisuseStop) os::fault(line);
  os::misuse(line);
}

// A double free and a write after free leave the same trace.
[[noreturn]] LOFT_COLD void report_returned_twice(const Message* message, const Slab* slab,
                                                  unsigned word, uint64_t twice) {
  const size_t object = (size_t{word} * 64 + lowest_bit(twice)) * slab->shape().size;
  Text what;
  what << "double free of " << reinterpret_cast<const void*>(slab->base + object)
       << ", or write after free to the message that brought it, in";
  slab::report_misuse(what.data(), message, slab);
}

// Puts the message's objects of one bitmap word back into the slab.
void put_received(const Message* message, Slab* slab, unsigned word, uint64_t freed,
                  unsigned count) {
  const uint64_t twice = slab->bits[word] & freed;
  if (LOFT_UNLIKELY(twice != 0)) report_returned_twice(message, slab, word, twice);
  slab->put_word(word, freed, count);
}

// The entry of the slab that a record names, if the slab exists and the word and bits are valid.
// Otherwise an entry that is not a slab's.
Entry entry_of(const Record& record) {
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

void Heap::receive_bitmap(Message* message, Tag tag, const uint64_t* words, Slab* slab,
                          Received& received) {
  const Geometry& shape = slab->shape();
  const unsigned first_word = first_word_in(tag);
  const unsigned end = first_word + word_count_in(tag);
  if (LOFT_UNLIKELY(end > shape.words || !carries_itself(message, words, first_word, end, slab))) {
    report_damaged(message);
  }
  unsigned objects = 0;
  for (unsigned word = first_word; word < end; ++word) {
    const uint64_t freed = words[word - first_word];
    if (freed == 0) continue;
    if (LOFT_UNLIKELY(beyond_last_object(shape, word, freed))) report_damaged(message);
    const unsigned count = count_bits(freed);
    put_received(message, slab, word, freed, count);
    objects += count;
  }
  if (LOFT_UNLIKELY(objects == 0)) report_damaged(message);
  if (LOFT_UNLIKELY(free_reads_as_zero)) {
    __builtin_memset(static_cast<void*>(message), 0,
                     messages::head() + size_t{end - first_word} * sizeof(uint64_t));
  }
  counters_.classes[slab->size_class].received.add(objects);
  received.bytes += objects * size_t{shape.size};
  update_list(slab);
}

// Rewrites a record as messages of its own, for the heap that has taken over the slab since.
void forward(const Record& record, const Slab& slab, HeapId owner, Forwarder& forwarder) {
  uint64_t words[kMaxWords];
  words[record.word] = record.freed;
  pack(slab.base, slab.shape(), words, uint64_t{1} << record.word,
       [&](Message* message) { forwarder.add(owner, message); });
}

// Processes records from last to first. The first ones belong to the carrier's own slab, so neither
// that slab nor the carrier is freed before all others have been read.
void Heap::receive_records(Message* message, unsigned count, const Record* records,
                           Forwarder& forwarder, Received& received) {
  const Slab* home = slab::at(pagemap.of(message));  // the carrier's slab
  // The records must fit into one object, and the message must start at one. Memory behind a slab
  // may be unmapped.
  if (LOFT_UNLIKELY(count - 1 >= record_capacity(home->shape().size) ||
                    home->object_starting_at(message) == kNoObject)) {
    report_damaged(message);
  }
  const size_t bytes = messages::head() + count * sizeof(Record);
  while (count-- != 0) {
    const Record record = records[count];
    if (LOFT_UNLIKELY(free_reads_as_zero && count == 0)) {
      __builtin_memset(static_cast<void*>(message), 0, bytes);
    }
    const Entry entry = entry_of(record);
    if (LOFT_UNLIKELY(!entry.is_slab())) report_damaged(message);
    Slab* slab = slab::at(entry);
    if (LOFT_UNLIKELY(entry.owner() != id_)) {
      // Valid only if that slab or the carrier's was taken over: the sender knew one owner of both.
      if (!peek(slab->moved) && !home->moved) report_damaged(message);
      forward(record, *slab, entry.owner(), forwarder);
      continue;
    }
    const unsigned objects = count_bits(record.freed);
    put_received(message, slab, record.word, record.freed, objects);
    counters_.classes[slab->size_class].received.add(objects);
    received.bytes += objects * size_t{slab->shape().size};
    // update_list would release the carrier's slab while records remain to be read.
    if (LOFT_UNLIKELY(slab == home && slab->empty() && count != 0)) report_damaged(message);
    update_list(slab);
  }
}

void Heap::receive_medium(Message* message, Received& received) {
  MediumRun* const run = medium::run_at(pagemap.of(message));
  // A message starts where its sender found an object.
  const bool starts =
      run->address_of(run->page_at(message)) == reinterpret_cast<uintptr_t>(message);
  if (LOFT_UNLIKELY(!starts || !run->word_at(message).object().kept)) report_damaged(message);
  const size_t bytes = run->bytes_of(message);
  mediums_.was_told(bytes);
  put_medium(message);
  counters_.medium_received.add(bytes);
  received.medium_bytes += bytes;
  received.bytes += bytes;
}

// The message is an object of a slab that stands for itself, because it has no room for a word.
void Heap::receive_alone(Message* message, Slab* slab, Received& received) {
  const uint32_t object = slab->object_starting_at(message);
  if (LOFT_UNLIKELY(free_reads_as_zero)) {
    __builtin_memset(static_cast<void*>(message), 0, messages::head());
  }
  put_received(message, slab, object / 64, uint64_t{1} << object % 64, 1);
  counters_.classes[slab->size_class].received.add(1);
  received.bytes += slab->shape().size;
  update_list(slab);
}

// Returns what the message counts for in the budget.
LOFT_ALWAYS_INLINE size_t Heap::receive(Message* message, Tag tag, const uint64_t* words,
                                        Entry entry, Forwarder& forwarder, Received& received) {
  if (LOFT_UNLIKELY(entry.owner() != id_)) {
    write_end(message, tag);
    forwarder.add(entry.owner(), message);
    return kGranule;  // forwarding is work too: this bounds the drain
  }
  const size_t bytes_before = received.bytes;
  size_t least_charge = kLeastCharge;
  ++received.messages;
  if (entry.bin() == kMedium) {
    receive_medium(message, received);
  } else if (has_records(tag)) {
    least_charge = most(least_charge, record_count_in(tag) * received.record_charge);
    receive_records(message, record_count_in(tag), reinterpret_cast<const Record*>(words),
                    forwarder, received);
  } else {
    receive_bitmap(message, tag, words, slab::at(entry), received);
  }
  return most(received.bytes - bytes_before, least_charge);
}

// Copies the payload, and checks the seal of the copy before anything changes. Then only the copy
// is believed.
LOFT_NOINLINE size_t Heap::receive_keyed(Message* message, Tag tag, Entry entry,
                                         Forwarder& forwarder, Received& received) {
  union {
    uint64_t words[messages::kMostPayload];
    Record records[messages::kKeyedRecords];
  } copy;
  const unsigned count = payload_words(tag);
  const bool is_medium = entry.bin() == kMedium;
  Slab* const slab = is_medium ? nullptr : slab::at(entry);
  uint32_t object = 0;
  size_t room = messages::head();  // bytes that can be read
  if (!is_medium) {
    object = slab->object_starting_at(message);
    if (LOFT_UNLIKELY(object == kNoObject)) report_forged(message);
    room = (slab->shape().objects - object) * size_t{slab->shape().size};
  }
  if (LOFT_UNLIKELY(count > messages::kMostPayload ||
                    messages::head() + count * sizeof(uint64_t) > room ||
                    !messages::copy_sealed(message, tag, copy.words, count))) {
    report_forged(message);
  }
  if (entry.owner() == id_ && !is_medium) {
    slab->end_use(object);
    if (tag == kAloneTag) {
      ++received.messages;
      receive_alone(message, slab, received);
      return kLeastCharge;
    }
  }
  return receive(message, tag, copy.words, entry, forwarder, received);
}

bool Heap::drain(size_t budget, size_t record_charge) {
  Forwarder forwarder(id_);
  Received received;
  received.record_charge = record_charge;
  const auto check = [](const Message* message, uint64_t link) {
    if (LOFT_LIKELY(leads_to_a_message(link))) return true;
    report_cut(message, link);
    return false;
  };
  const bool more = inbox_.drain(budget, check, [&](Message* message, Tag tag) -> size_t {
    const Entry entry = pagemap.of(message);
    if (messages::keyed()) return receive_keyed(message, tag, entry, forwarder, received);
    return receive(message, tag, message->words(), entry, forwarder, received);
  });
  if (received.messages != 0) is_purged_.store(false, memory_order_relaxed);
  // The senders have told space/unused.h of these bytes. The heap tells of what it handed out
  // meanwhile: if it lives on what it receives, it may tell nowhere else.
  const size_t in_slabs = received.bytes - received.medium_bytes;
  unused_ += in_slabs;
  told_.was_told(in_slabs);
  told_.see_less(unused_);
  mediums_.see_less();
  counters_.drains.add(1);
  counters_.messages_received.add(received.messages);
  if (LOFT_UNLIKELY(forwarder.messages() != 0)) {
    counters_.forwards.add(forwarder.messages());
    counters_.posts.add(forwarder.post());
  }
  return more;
}

void Heap::drain_all() {
  // The stub may still be queued, with messages behind it. The first drain consumes it, so that it
  // can be queued again.
  drain(kDrainAllBytes);
  inbox_.complete();
  drain(kDrainAllBytes);
}

void Heap::repair_inbox() {
  inbox_.repair([](const Message*, uint64_t link) { return leads_to_a_message(link); });
}

// As drain_all, in steps. False if another thread waits.
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
