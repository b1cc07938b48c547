// Heaps under every interleaving of remote frees, refills, a thread's end, adoption, and drains by
// others. The real heap, registry, slab and space floors run; only locks are one step each.
//
// Checked: no object is handed out while somebody holds it, and once all is drained every object
// that was freed is free in its slab, none twice; and nobody reads or writes what a heap or a slab
// says of itself while another may be writing it.
#include "heap/heap.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "base/options.h"
#include "engine.h"
#include "heap/registry.h"
#include "os/fault.h"
#include "remote/outbox.h"
#include "remote/pack.h"
#include "space/span.h"

namespace loft::os {

// A second between any two looks at the clock: who served nothing in between, was idle for long.
uint64_t now_ns() {
  static uint64_t now = 0;
  return now += 1'000'000'000;
}

void misuse(const Text&) {}
void fault(const Text& what) { model::fail(std::string(what.data(), what.size())); }

// A key is set before all tasks, or never.
void random_bytes(void* to, size_t bytes) {
  auto* byte = static_cast<unsigned char*>(to);
  for (size_t i = 0; i < bytes; ++i) byte[i] = static_cast<unsigned char>(37 * i + 11);
}

}  // namespace loft::os

namespace {

using namespace loft;

// Few objects to a slab, in one word: slabs fill up and become empty within a few steps.
constexpr SizeClass kClass = kSizeClasses - 1;
constexpr unsigned kObjects = geometry(kClass).objects;
static_assert(geometry(kClass).words == 1 && kObjects >= 16);

Heap* owner;                  // of what the senders free
void* objects[2 * kObjects];  // of two of its slabs
std::map<void*, bool> held;
std::map<HeapId, bool> owned;

void hold(void* object) {
  bool& is_held = held[object];
  model::check(!is_held, "an object was handed out twice");
  is_held = true;
}
void let_go(void* object) { held[object] = false; }

unsigned refill(Heap* heap, unsigned wanted, bool from_new = true) {
  void* slots[kObjects] = {};
  const os::Guard guard(heap->lock());
  unsigned taken = heap->refill(kClass, slots + wanted - 1, wanted);
  if (taken == 0 && from_new) taken = heap->refill_from_new(kClass, slots + wanted - 1, wanted);
  for (unsigned i = 0; i < taken; ++i) hold(slots[wanted - 1 - i]);
  return taken;
}

// As a refill that comes to its limit: it leaves messages behind.
void drain_one_message(Heap* heap) {
  const os::Guard guard(heap->lock());
  heap->drain(1);
}

Entry entry_of(unsigned object) { return pagemap.of(objects[object]); }

// The batch of some objects of one slab.
void collect(unsigned first, unsigned count, uint64_t* words) {
  for (unsigned i = first; i < first + count; ++i) {
    let_go(objects[i]);
    const auto offset = reinterpret_cast<uintptr_t>(objects[i]) - slab::at(entry_of(i))->base;
    words[0] |= uint64_t{1} << offset / geometry(kClass).size;
  }
}

void add_bitmap(Outbox& outbox, unsigned first, unsigned count) {
  uint64_t words[kMaxWords] = {};
  collect(first, count, words);
  pack(slab::at(entry_of(first))->base, geometry(kClass), words,
       used_words(geometry(kClass), words),
       [&](Message* message) { outbox.add(destination(message), message); });
}

// As records, in an open carrier if the outbox has one.
void add_records(Outbox& outbox, unsigned first, unsigned count) {
  const Entry entry = entry_of(first);
  uint64_t words[kMaxWords] = {};
  collect(first, count, words);
  if (Record* room = outbox.reserve(entry.owner(), 1); room != nullptr) {
    write_records(entry.index(), words, 1, room, outbox.seal_of(entry.owner()));
    return;
  }
  auto* carrier = reinterpret_cast<Message*>(slab::at(entry)->base +
                                             highest_bit(words[0]) * geometry(kClass).size);
  uint64_t seal = begin_seal(carrier);
  write_records(entry.index(), words, 1, carrier->records(), &seal);
  outbox.add_open(entry.owner(), carrier, 1, record_capacity(geometry(kClass).size), seal);
}

std::function<void()> sender(unsigned first, unsigned count) {
  return [=] {
    Outbox outbox{};
    add_bitmap(outbox, first, count);
    outbox.post();
  };
}

// One carrier for a few objects of each slab.
void sender_of_records() {
  Outbox outbox{};
  add_records(outbox, 0, 3);
  add_records(outbox, kObjects, 3);
  add_records(outbox, 3, 2);
  outbox.post();
}

Heap* start_of_thread() {
  Heap* place = nullptr;
  Heap* const heap = registry::adopt(place);
  model::check(!owned[heap->id()], "a heap has two owners");
  owned[heap->id()] = true;
  return heap;
}

void end_of_thread(Heap* heap) {
  {
    const os::Guard guard(heap->lock());
    heap->drain_all();
  }
  owned[heap->id()] = false;
  registry::abandon(heap);
}

void do_not_explore(const Region& table) {
  model::declare_unexplored(reinterpret_cast<void*>(table.base), table.committed - table.base);
}

void prepare_slabs() {
  owner = start_of_thread();
  for (unsigned i = 0; i < 2; ++i) {
    void** slots = objects + i * kObjects;
    const os::Guard guard(owner->lock());
    model::check(owner->refill_from_new(kClass, slots + kObjects - 1, kObjects) == kObjects,
                 "no memory");
  }
  for (void* object : objects) hold(object);
}

// Most scenarios have all heaps at their start, and each task sees the owner of the moment.
void prepare() {
  model::declare_unexplored(directory, sizeof(directory));
  do_not_explore(window.pagemap);
  prepare_slabs();
}

// Three quarters of the owner's second slab are free.
constexpr unsigned kLeft = 2 * kObjects - kObjects / 4;  // the first object that stays
void empty_second_slab() {
  for (unsigned i = kObjects; i < kLeft; ++i) {
    let_go(objects[i]);
    Slab* slab = slab::at(entry_of(i));
    owner->put_word(slab, 0, uint64_t{1} << slab->object_starting_at(objects[i]));
  }
}

// The owner's thread is gone: whoever needs memory takes that slab over.
void prepare_for_a_taker() {
  prepare();
  empty_second_slab();
  end_of_thread(owner);
}

void own_all() {
  for (unsigned id = 1; id <= registry::count(); ++id) {
    if (registry::at(id)->abandoned()) start_of_thread();
  }
}

// The owner's thread has not run for so long that nothing is left to it, and no heap is abandoned:
// a thread that starts makes one, and takes that slab over.
void prepare_for_a_new_heap() {
  prepare_slabs();
  empty_second_slab();
  own_all();
  owner->idle_ns(1);
  while (os::now_ns() < 20'000'000'000) {
  }
}

// Whoever knows of a heap finds it made.
void look_at_all() {
  for (unsigned id = 1; id <= registry::count(); ++id) {
    model::check(registry::at(id)->id() == id, "a heap that is known is nowhere");
  }
}

void taker() { refill(registry::at(4), 2); }

// As a cache is flushed that has objects of both slabs.
void flush_both() {
  void* cached[] = {objects[0], objects[kLeft], objects[1]};
  for (void* object : cached) let_go(object);
  Outbox outbox{};
  {
    const os::Guard guard(owner->lock());
    void** at = cached;
    while ((at = owner->put_back(kClass, at, std::end(cached))) != std::end(cached)) {
      const auto object =
          static_cast<unsigned>(std::find(objects, std::end(objects), *at) - objects);
      let_go(*at++);
      add_bitmap(outbox, object, 1);
    }
  }
  outbox.post();
}

void a_thread() {
  Heap* heap = start_of_thread();
  refill(heap, 2);
  end_of_thread(heap);
}

void finish() {
  for (unsigned round = 0; round < 2 * kMaxHops; ++round) {
    for (unsigned id = 1; id <= registry::count(); ++id) {
      if (registry::at(id)->inbox().maybe_pending()) registry::at(id)->drain_all();
    }
  }
  // Who is not owned can be adopted, once.
  const unsigned heaps = registry::count();
  for (unsigned id = 1; id <= heaps; ++id) {
    model::check(!registry::at(id)->inbox().maybe_pending(), "a queue has no end");
  }
  const auto unowned = heaps - std::count_if(owned.begin(), owned.end(),
                                             [](const auto& entry) { return entry.second; });
  for (long i = 0; i < unowned; ++i) {
    model::check(start_of_thread()->id() <= heaps, "an abandoned heap was lost");
  }

  size_t allocated = 0;
  for (unsigned id = 1; id <= registry::count(); ++id) {
    Heap* heap = registry::at(id);
    heap->check();
    allocated += heap->counters().allocated_bytes();
  }
  size_t used = 0;
  for (const auto& [object, is_held] : held) {
    used += is_held ? class_size(kClass) : 0;
    const Entry entry = pagemap.of(object);
    if (!entry.is_slab()) {
      model::check(!is_held, "a slab was let go with an object in use");
      continue;
    }
    const Slab* slab = slab::at(entry);
    const auto index = (reinterpret_cast<uintptr_t>(object) - slab->base) / slab->shape().size;
    model::check((slab->bits[0] >> index & 1) == (is_held ? 0 : 1),
                 is_held ? "an object in use is free in its slab" : "an object was lost");
  }
  model::check(allocated == used, "the sums are wrong");
}

std::vector<model::Scenario> scenarios() {
  using model::Scenario;
  std::vector<Scenario> all;

  const auto taken_over = [&](const char* name, std::function<void()> sender) {
    all.push_back(
        Scenario{name, prepare_for_a_taker, {sender, taker, a_thread}, finish, ~0u, 5000, true});
  };
  taken_over("a slab is taken over while a record of it is in another slab's carrier", [] {
    Outbox outbox{};
    add_records(outbox, 0, 3);
    add_records(outbox, kLeft, 2);
    outbox.post();
  });
  taken_over("a slab is taken over whose object carries records of another", [] {
    Outbox outbox{};
    add_records(outbox, kLeft, 2);
    add_records(outbox, 0, 3);
    add_records(outbox, kLeft + 2, 1);
    outbox.post();
  });
  taken_over("a slab is taken over while bitmaps of it and of another are on their way", [] {
    Outbox outbox{};
    add_bitmap(outbox, 0, 2);
    add_bitmap(outbox, kLeft, 2);
    outbox.post();
  });
  taken_over("a slab is taken over while the old owner's cache has objects of it", flush_both);

  all.push_back(Scenario{"a heap is made and takes a slab over while others send and look",
                         prepare_for_a_new_heap,
                         {sender(kLeft, 2), [] { refill(start_of_thread(), 2); }, look_at_all},
                         finish,
                         2,
                         5000,
                         true});

  const auto ask_for_the_shared_one = [] { owned[registry::shared_heap()->id()] = true; };
  all.push_back(Scenario{"two ask for the heap that all share, which is made",
                         [] {
                           prepare();
                           own_all();
                         },
                         {ask_for_the_shared_one, ask_for_the_shared_one},
                         finish,
                         ~0u,
                         5000,
                         true});

  // It was idle from 1 on, and has served since: who asks again begins anew.
  const auto ask = [](uint64_t now) {
    return [=] { model::check(owner->idle_ns(now) <= 1, "a heap was idle while it served"); };
  };
  all.push_back(Scenario{"two ask for how long a heap has been idle",
                         [] {
                           prepare();
                           empty_second_slab();
                           owner->idle_ns(1);
                           refill(owner, 1);
                         },
                         {ask(1000), ask(1001)},
                         finish,
                         ~0u,
                         5000,
                         true});

  all.push_back(Scenario{"two senders empty a slab, the owner drains one by one",
                         prepare,
                         {sender(0, kObjects / 2), sender(kObjects / 2, kObjects / 2),
                          [] {
                            drain_one_message(owner);
                            refill(owner, 4);
                          }},
                         finish,
                         ~0u,
                         5000,
                         true});

  all.push_back(Scenario{"records of two slabs in one carrier, and a bitmap that empties one",
                         prepare,
                         {sender_of_records, sender(5, kObjects - 5),
                          [] {
                            refill(owner, 4);
                            end_of_thread(owner);
                          }},
                         finish,
                         ~0u,
                         5000,
                         true});

  all.push_back(Scenario{"a slab of which one object stays in use, beside another",
                         prepare,
                         {sender(kObjects, 2), sender(0, kObjects - 1), [] { refill(owner, 1); }},
                         finish,
                         ~0u,
                         5000,
                         true});

  // Heaps 1 and 65 share a bucket: what goes to one of them may be the other's.
  all.push_back(Scenario{"a bucket for two heaps is forwarded by one of them while both drain",
                         [] {
                           prepare();
                           Heap* far = nullptr;
                           while (far == nullptr || far->id() < owner->id() + 64) {
                             far = start_of_thread();
                           }
                           const os::Guard guard(far->lock());
                           void** slots = objects + kObjects;
                           for (unsigned i = 0; i < kObjects; ++i) let_go(slots[i]);
                           for (unsigned i = 0; i < kObjects; ++i) {
                             Slab* slab = slab::at(entry_of(kObjects + i));
                             const auto offset = reinterpret_cast<uintptr_t>(slots[i]) - slab->base;
                             owner->put_word(slab, 0, uint64_t{1} << offset / kSmallMax);
                           }
                           far->refill_from_new(kClass, slots + kObjects - 1, kObjects);
                           for (unsigned i = 0; i < kObjects; ++i) hold(slots[i]);
                         },
                         {[] {
                            Outbox outbox{};
                            add_bitmap(outbox, 0, 4);
                            add_bitmap(outbox, kObjects, 4);
                            outbox.post();
                          },
                          [] {
                            const os::Guard guard(owner->lock());
                            owner->drain_all();
                          },
                          [] {
                            Heap* far = registry::at(owner->id() + 64u);
                            const os::Guard guard(far->lock());
                            far->drain_all();
                          }},
                         finish,
                         ~0u,
                         5000,
                         true});

  all.push_back(Scenario{"the owner ends while others send, the next thread adopts",
                         prepare,
                         {sender(0, 8), sender(kObjects, 8),
                          [] {
                            drain_one_message(owner);
                            refill(owner, 2);
                            end_of_thread(owner);
                          },
                          [] { refill(start_of_thread(), 3); }},
                         finish,
                         2,
                         5000,
                         true});

  all.push_back(Scenario{"an abandoned heap is drained by another owner and adopted meanwhile",
                         [] {
                           prepare();
                           end_of_thread(owner);
                           owner->idle_ns(1);  // the next look finds it idle
                         },
                         {sender(0, kObjects), [] { refill(registry::at(4), 2); }, a_thread},
                         finish,
                         3,
                         5000,
                         true});

  all.push_back(
      Scenario{"a heap whose thread seems not to run is drained by another while it does",
               [] {
                 prepare();
                 owner->idle_ns(1);
               },
               {sender(0, kObjects), [] { refill(registry::at(4), 2); }, [] { refill(owner, 4); }},
               finish,
               3,
               5000,
               true});

  all.push_back(Scenario{"three threads come and go",
                         [] {
                           prepare();
                           end_of_thread(owner);
                         },
                         {a_thread, a_thread, a_thread},
                         finish,
                         2,
                         5000,
                         true});
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  model::declare_unexplored(&options, sizeof(options));
  if (!span::initialise()) return 2;
  const Region& heaps_and_slabs = window.metadata;
  model::declare_instrumented(reinterpret_cast<void*>(heaps_and_slabs.base),
                              heaps_and_slabs.end - heaps_and_slabs.base);
  // Four heaps, of which a look for abandoned ones always sees all. The first will be the owner's,
  // the last one stays somebody else's.
  Heap* heaps[4] = {};
  for (Heap*& heap : heaps) registry::adopt(heap);
  for (int i = 2; i >= 0; --i) registry::abandon(heaps[i]);
  owned[heaps[3]->id()] = true;
  // Whoever has a heap's number has it from the number of heaps or from a slab's entry.
  constexpr const char* kOrderedAlready = "the number was acquired, from who made the heap";
  return model::explore_all(
      scenarios(), argc, argv,
      {{"heap/registry.cc", "directory[id].store", "store release -> relaxed", kOrderedAlready},
       {"heap/registry.cc", "directory[id].load", "load acquire -> relaxed", kOrderedAlready},
       {"remote/directory.cc", "directory[destination", "load acquire -> relaxed", kOrderedAlready},
       {"space/span.cc", "initialised.load", "load acquire -> relaxed",
        "the space is there before any task"}});
}
