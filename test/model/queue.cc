// The message floor under every interleaving: inboxes with several producers, consumers that take
// turns under a lock, budgets, forwarding, the repair after a fork, and links that a write after
// free has damaged.
//
// Checked: every message arrives once, whole, with its tag, at its owner, and its memory is free to
// be used again when it does; drains keep their budget; nobody needs more than kMaxHops hops; a
// queue that holds something says so; one that was cut is seen to be, and takes messages again.
#include <algorithm>
#include <iterator>
#include <new>
#include <string>

#include "engine.h"
#include "os/fault.h"
#include "os/lock.h"
#include "remote/directory.h"
#include "remote/inbox.h"
#include "remote/outbox.h"
#include "remote/pack.h"

namespace loft {

constinit Pagemap pagemap;
constinit Window window;
constinit Seals* early_seals = nullptr;

void os::fault(const Text& what) { model::fail(std::string(what.data(), what.size())); }

}  // namespace loft

namespace {

using namespace loft;

// Ids that share their first digit, the last one its second digit too; and one that shares none.
constexpr HeapId kIds[] = {1, 2, 1 + 64, 1 + 2 * 64, 1 + 3 * 64, 1 + 4096};
constexpr unsigned kHeaps = 6;
constexpr unsigned kMessages = 8;

alignas(kGranule) char arena[kHeaps * kGranule];
Entry entries[kHeaps];

struct World {
  Inbox inboxes[kHeaps];  // first: the explorer is told of their plain accesses
  os::Lock locks[kHeaps];
  unsigned received[kHeaps * kMessages] = {};
  unsigned hops[kHeaps * kMessages] = {};
  bool written = false;  // a program writes to its freed objects: no one's memory is used again
  unsigned cuts = 0;     // that drains have seen
  uint64_t words[kMaxWords] = {};  // what came home of a packed batch
};
alignas(World) char world_memory[sizeof(World)];
World& world() { return *std::launder(reinterpret_cast<World*>(world_memory)); }

char* granule(unsigned heap) { return arena + heap * kGranule; }

Message* message_at(unsigned heap, unsigned number) {
  return reinterpret_cast<Message*>(granule(heap) + number * 64);
}
unsigned serial_of(const Message* message) {
  const auto offset = static_cast<size_t>(reinterpret_cast<const char*>(message) - arena);
  model::check(offset < sizeof(arena) && offset % 64 == 0, "a message that was never sent");
  return static_cast<unsigned>(offset / kGranule * kMessages + offset % kGranule / 64);
}
Tag tag_of(unsigned serial) { return static_cast<Tag>(serial * 5 + 3); }

// Memory that was used for something else before: what is not written is not zero.
void set_up() {
  new (world_memory) World;
  for (unsigned heap = 0; heap < kHeaps; ++heap) {
    entries[heap] = Entry(kIds[heap], bin_offset(0), heap + 1);
    directory[kIds[heap]].store(&world().inboxes[heap], memory_order_relaxed);
    for (unsigned i = 0; i < kMessages; ++i) {
      message_at(heap, i)->link.store(~uint64_t{0} >> (i + 1), memory_order_relaxed);
    }
  }
}

// As pack does it: payload, then an end for the link.
Message* write_message(unsigned heap, unsigned number) {
  Message* message = message_at(heap, number);
  model::plain_write(message->words());
  message->words()[0] = serial_of(message);
  write_end(message, tag_of(serial_of(message)));
  return message;
}

Chain write_chain(unsigned heap, unsigned first, unsigned count) {
  Chain chain{};
  for (unsigned i = 0; i < count; ++i) chain.append(write_message(heap, first + i));
  return chain;
}

// The owner hands the memory of a message out again at once.
void use_again(Message* message) {
  if (world().written) return;
  model::plain_write(message->words());
  model::plain_write(&message->link);
  message->words()[0] = ~uint64_t{0};
}

bool leads_to_a_message(uint64_t link) {
  const uintptr_t offset =
      reinterpret_cast<uintptr_t>(next_in(link)) - reinterpret_cast<uintptr_t>(arena);
  return tag_in(link) != 0 && offset < sizeof(arena) && offset % 64 == 0;
}

bool check_link(const Message*, uint64_t link) {
  if (leads_to_a_message(link)) return true;
  model::check(world().written, "a link was damaged that nobody wrote to");
  ++world().cuts;
  return false;
}

void repair(unsigned heap) {
  world().inboxes[heap].repair(
      [](const Message*, uint64_t link) { return leads_to_a_message(link); });
}

bool drain(unsigned heap, size_t budget) {
  Forwarder forwarder(kIds[heap]);
  size_t taken = 0;
  const bool more =
      world().inboxes[heap].drain(budget, check_link, [&](Message* message, Tag tag) -> size_t {
        const unsigned serial = serial_of(message);
        model::plain_read(message->words());
        model::check(message->words()[0] == serial, "a message arrived without its payload");
        model::check(tag == tag_of(serial), "a message arrived without its tag");
        model::check(++world().hops[serial] <= kMaxHops, "too many hops");
        model::check(++taken <= (budget == 0 ? 1 : budget), "the budget was not kept");
        const HeapId owner = destination(message);
        if (owner != kIds[heap]) {
          write_end(message, tag);
          forwarder.add(owner, message);
          return 1;
        }
        model::check(++world().received[serial] == 1, "a message arrived twice");
        use_again(message);
        return 1;
      });
  model::check(!more || taken >= budget, "the drain stopped before its budget");
  forwarder.post();
  return more;
}

void drain_all(unsigned heap) {
  drain(heap, SIZE_MAX);
  world().inboxes[heap].complete();
  drain(heap, SIZE_MAX);
}

// Drains as users do: only where something seems to wait. Then everything has to be home.
void drain_until_quiet() {
  for (unsigned round = 0; round < 2 * kMaxHops; ++round) {
    for (unsigned heap = 0; heap < kHeaps; ++heap) {
      if (world().inboxes[heap].maybe_pending()) drain_all(heap);
    }
  }
  for (Inbox& inbox : world().inboxes) model::check(!inbox.maybe_pending(), "a queue has no end");
}

void expect(unsigned heap, unsigned first, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    model::check(world().received[heap * kMessages + first + i] == 1, "a message was lost");
  }
}

std::function<void()> producer(unsigned heap, unsigned first, unsigned count) {
  return [=] { world().inboxes[heap].push(write_chain(heap, first, count)); };
}

// A batch of 64-byte objects, none of them beside another: it takes two messages.
constexpr uint64_t kPacked[] = {0x8000000000000001, 0, 0, 2, 0, 0, 0, 0, 0, 0x50};

// Takes in what was packed, as Heap does.
void take_words(size_t budget) {
  world().inboxes[0].drain(budget, check_link, [](Message* message, Tag tag) -> size_t {
    model::plain_read(message->words());
    const unsigned first = first_word_in(tag);
    const unsigned end = first + word_count_in(tag);
    for (unsigned word = first; word < end; ++word) {
      const uint64_t freed = message->words()[word - first];
      model::check((world().words[word] & freed) == 0, "an object came home twice");
      world().words[word] |= freed;
    }
    return 1;
  });
}

std::function<void()> finish(unsigned messages) {
  return [=] {
    drain_until_quiet();
    expect(0, 0, messages);
  };
}

std::vector<model::Scenario> scenarios() {
  using model::Scenario;
  std::vector<Scenario> all;

  all.push_back(Scenario{"two producers, chains of two, one consumer",
                         set_up,
                         {producer(0, 0, 2), producer(0, 2, 2), [] { drain_all(0); }},
                         finish(4)});

  all.push_back(Scenario{"three producers, one consumer with a budget",
                         set_up,
                         {producer(0, 0, 1), producer(0, 1, 1), producer(0, 2, 1),
                          [] {
                            drain(0, 1);
                            world().inboxes[0].complete();
                            drain(0, 2);
                          }},
                         finish(3)});

  all.push_back(Scenario{"the stub goes round: two producers, complete() between drains",
                         set_up,
                         {[] {
                            producer(0, 0, 1)();
                            producer(0, 1, 1)();
                          },
                          producer(0, 2, 1),
                          [] {
                            drain_all(0);
                            world().inboxes[0].complete();
                            drain_all(0);
                          }},
                         finish(3)});

  all.push_back(Scenario{"complete() before any drain, budget of nothing",
                         set_up,
                         {producer(0, 0, 2),
                          [] {
                            world().inboxes[0].complete();
                            drain(0, 0);
                            world().inboxes[0].complete();
                            drain(0, 0);
                          }},
                         finish(2)});

  const auto under_lock = [](std::function<void()> work) -> std::function<void()> {
    return [work] {
      const os::Guard guard(world().locks[0]);
      work();
    };
  };
  all.push_back(Scenario{"one looks at what is queued, and leaves it there",
                         set_up,
                         {producer(0, 0, 2), producer(0, 2, 1), under_lock([] {
                            world().inboxes[0].for_each(
                                check_link, [](const Message* message, Tag) {
                                  model::plain_read(const_cast<Message*>(message)->words());
                                });
                          })},
                         finish(3)});

  all.push_back(Scenario{"a heap changes hands: two consumers under the lock",
                         set_up,
                         {producer(0, 0, 2), producer(0, 2, 1), under_lock([] {
                            drain(0, 1);
                            world().inboxes[0].complete();
                          }),
                          under_lock([] { drain_all(0); })},
                         finish(3)});

  all.push_back(Scenario{"an abandoned heap: whoever finds something waiting drains it",
                         set_up,
                         {producer(0, 0, 1), producer(0, 1, 2), under_lock([] { drain_all(0); }),
                          [] {
                            if (!world().inboxes[0].maybe_pending()) return;
                            if (!world().locks[0].try_lock()) return;
                            drain(0, 1);
                            world().inboxes[0].complete();
                            drain(0, 1);
                            world().locks[0].unlock();
                          }},
                         finish(3)});

  all.push_back(Scenario{"an outbox whose bucket is for five heaps, forwarded by those who get it",
                         set_up,
                         {[] {
                            Outbox outbox{};
                            for (const unsigned heap : {0, 2, 3, 4, 5, 1}) {
                              outbox.add(kIds[heap], write_message(heap, 0));
                            }
                            model::check(outbox.post() == 2, "one post for each bucket");
                          },
                          [] { world().inboxes[2].push(write_chain(2, 1, 1)); },
                          [] { drain_all(0); }, [] { drain_all(2); }},
                         [] {
                           drain_until_quiet();
                           for (unsigned heap = 0; heap < kHeaps; ++heap) expect(heap, 0, 1);
                           expect(2, 1, 1);
                         }});

  all.push_back(Scenario{"an outbox that posts twice to the same heap",
                         set_up,
                         {[] {
                            Outbox outbox{};
                            for (const unsigned number : {0, 1}) {
                              outbox.add(kIds[0], write_message(0, number));
                              model::check(outbox.post() == 1, "one post for each bucket");
                            }
                          },
                          [] { drain_all(0); }},
                         finish(2)});

  all.push_back(Scenario{"three producers, two consumers in turn, few preemptions",
                         set_up,
                         {[] {
                            producer(0, 0, 1)();
                            producer(0, 1, 2)();
                          },
                          [] {
                            producer(0, 3, 1)();
                            producer(0, 4, 1)();
                          },
                          producer(0, 5, 1), under_lock([] {
                            drain(0, 2);
                            world().inboxes[0].complete();
                            drain(0, 1);
                          }),
                          under_lock([] { drain_all(0); })},
                         finish(6),
                         2,
                         100000});

  // Two carriers, of which one leads to a part of the bitmap further on.
  all.push_back(Scenario{"a packed batch comes home whole",
                         set_up,
                         {[] {
                            uint64_t words[kMaxWords] = {};
                            std::copy(std::begin(kPacked), std::end(kPacked), words);
                            Chain chain{};
                            const Geometry& shape = geometry(class_of(64));
                            pack(reinterpret_cast<uintptr_t>(granule(0)), shape, words,
                                 used_words(shape, words), [&](Message* message) {
                                   model::plain_write(message->words());
                                   chain.append(message);
                                 });
                            world().inboxes[0].push(chain);
                            for (const uint64_t word : words)
                              model::check(word == 0, "the batch keeps its bits");
                          },
                          [] {
                            take_words(1);
                            world().inboxes[0].complete();
                            take_words(2);
                          }},
                         [] {
                           take_words(2);
                           world().inboxes[0].complete();
                           take_words(2);
                           for (unsigned i = 0; i < kMaxWords; ++i) {
                             const uint64_t sent = i < std::size(kPacked) ? kPacked[i] : 0;
                             model::check(world().words[i] == sent, "objects were lost on the way");
                           }
                         }});

  // What a dead producer cut off is lost, nothing comes twice, and the queue goes on.
  all.push_back(Scenario{
      "the child of a fork repairs the queue",
      set_up,
      {producer(0, 0, 2), producer(0, 2, 1), under_lock([] { drain(0, 1); }), under_lock([] {
         model::end_other_tasks();
         repair(0);
         producer(0, 4, 1)();
         drain(0, 1);
         producer(0, 5, 1)();
         drain_all(0);
       })},
      [] {
        drain_until_quiet();
        expect(0, 4, 2);
      }});

  // A program writes nothing, or a pointer, over a link, before or after a next message is behind
  // it. What was on its way may be lost; what is sent after a drain has seen it arrives.
  const auto set_up_for_writes = [] {
    set_up();
    world().written = true;
  };
  const auto sent_after_the_cut = [](unsigned least_cuts) {
    return [=] {
      drain_all(0);
      drain_until_quiet();
      model::check(world().cuts >= least_cuts, "a cut was not seen");
      producer(0, 6, 2)();
      drain_until_quiet();
      expect(0, 6, 2);
    };
  };
  const auto write = [](unsigned message, uint64_t word) {
    message_at(0, message)->link.store(word, memory_order_relaxed);
  };
  all.push_back(Scenario{"a write after free between two messages, while others push and drain",
                         set_up_for_writes,
                         {[=] {
                            producer(0, 0, 1)();
                            producer(0, 1, 1)();
                            write(0, 0);
                          },
                          producer(0, 2, 1), [] { drain_all(0); }},
                         sent_after_the_cut(0)});
  all.push_back(Scenario{"a pointer written over a link, the stub behind it",
                         set_up_for_writes,
                         {[=] {
                            producer(0, 0, 2)();
                            write(0, reinterpret_cast<uint64_t>(message_at(0, 0)));
                          },
                          producer(0, 2, 1),
                          [] {
                            drain(0, 1);
                            world().inboxes[0].complete();
                            drain(0, 2);
                          }},
                         sent_after_the_cut(0)});
  all.push_back(Scenario{"a link is overwritten before anybody drains",
                         [=] {
                           set_up_for_writes();
                           producer(0, 0, 2)();
                           write(0, 0);
                         },
                         {producer(0, 2, 2), producer(0, 4, 1), [] { drain_all(0); }},
                         sent_after_the_cut(1)});
  all.push_back(Scenario{"the child of a fork repairs a queue with an overwritten link",
                         [=] {
                           set_up_for_writes();
                           producer(0, 0, 3)();
                           write(1, reinterpret_cast<uint64_t>(message_at(0, 0)));
                         },
                         {producer(0, 3, 1), under_lock([] { drain(0, 1); }), under_lock([] {
                            model::end_other_tasks();
                            repair(0);
                            drain_all(0);
                          })},
                         sent_after_the_cut(1)});
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  pagemap.set_table(reinterpret_cast<uintptr_t>(arena), entries);
  pagemap.raise_limit(reinterpret_cast<uintptr_t>(arena) + sizeof(arena));
  model::declare_unexplored(directory, sizeof(directory));
  model::declare_unexplored(entries, sizeof(entries));
  model::declare_memory(arena, sizeof(arena));
  model::declare_instrumented(arena, sizeof(arena));
  model::declare_instrumented(world_memory, sizeof(World::inboxes));
  model::declare_memory(world_memory, sizeof(world_memory));
  return model::explore_all(scenarios(), argc, argv);
}
