// N producers send batches of one to sixteen messages, each batch of one of four sizes, to randomly
// chosen consumers, which free them; at most --limit messages are alive at any time.
//
// Source: the message-passing benchmark with back-pressure of BatchIt (ISMM 2024, section 4.3,
// figures 4 and 5). The messages are linked through their own first word, as an actor's mailbox
// links them, so that a consumer reads every message it frees, and checks its stamp.
#include "common.h"

namespace {

constexpr uint32_t kSizes[] = {48, 64, 96, 128};
constexpr uint64_t kMagic = 0x10F7'10F7'10F7'10F7;

struct Message {
  std::atomic<Message*> next;
  uint64_t stamp;
};

// Many senders, one receiver: a sender swings `back` and then links; the receiver takes all that is
// linked. The dummy node stays at the front, so the queue never runs out of nodes.
struct alignas(128) Mailbox {
  std::atomic<Message*> back{&dummy};
  alignas(128) Message* front = &dummy;
  Message dummy{{nullptr}, 0};

  void push(Message* first, Message* last) {
    last->next.store(nullptr, std::memory_order_relaxed);
    back.exchange(last, std::memory_order_acq_rel)->next.store(first, std::memory_order_release);
  }

  // Frees what has arrived, except for the newest message, which stays as the front. Returns how
  // many were freed.
  uint64_t drain() {
    uint64_t freed = 0;
    while (Message* next = front->next.load(std::memory_order_acquire)) {
      freed += dispose(front);
      front = next;
    }
    return freed;
  }
  uint64_t dispose(Message* m) {
    if (m == &dummy) return 0;
    if (m->stamp != (reinterpret_cast<uintptr_t>(m) ^ kMagic)) {
      bench::fail("message %p was overwritten", static_cast<void*>(m));
    }
    m->stamp = 0;
    bench::release(m);
    return 1;
  }
};

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t producers = arguments.number("producers", 1, 1, 1000);
  uint64_t consumers = arguments.number("consumers", 1, 1, 1000);
  uint64_t batches = arguments.number("batches", 2'000'000);
  // The front message of each mailbox stays alive, so the limit must exceed their number.
  uint64_t limit = arguments.number("limit", 4096, 16 + consumers);
  arguments.finish();

  bench::Team team;
  std::vector<Mailbox> mailboxes(consumers);
  struct alignas(128) Counter {
    std::atomic<uint64_t> value{0};
  };
  Counter alive;
  Counter producing;
  Counter sent;
  Counter freed;
  Counter most;
  producing.value = producers;
  double seconds = team.run(producers + consumers, [&](size_t index) {
    if (index < producers) {
      bench::Random random(index + 1);
      uint64_t mine = 0;
      uint64_t peak = 0;
      uint64_t share = batches / producers + (index < batches % producers ? 1 : 0);
      for (uint64_t b = 0; b < share; b++) {
        uint32_t count = random.between(1, 16);
        uint32_t size = kSizes[random.below(4)];
        Mailbox& to = mailboxes[random.below(static_cast<uint32_t>(consumers))];
        uint64_t before = alive.value.load(std::memory_order_relaxed);
        while (before + count > limit || !alive.value.compare_exchange_weak(
                                             before, before + count, std::memory_order_relaxed)) {
          if (before + count > limit) {
            std::this_thread::yield();
            before = alive.value.load(std::memory_order_relaxed);
          }
        }
        peak = before + count > peak ? before + count : peak;
        Message* first = nullptr;
        Message* last = nullptr;
        for (uint32_t i = 0; i < count; i++) {
          auto* m = static_cast<Message*>(bench::allocate(size));
          m->stamp = reinterpret_cast<uintptr_t>(m) ^ kMagic;
          if (last == nullptr) {
            first = m;
          } else {
            last->next.store(m, std::memory_order_relaxed);
          }
          last = m;
        }
        to.push(first, last);
        mine += count;
      }
      sent.value.fetch_add(mine);
      uint64_t seen = most.value.load();
      while (seen < peak && !most.value.compare_exchange_weak(seen, peak)) {
      }
      producing.value.fetch_sub(1, std::memory_order_release);
    } else {
      Mailbox& box = mailboxes[index - producers];
      uint64_t mine = 0;
      for (;;) {
        bool last_round = producing.value.load(std::memory_order_acquire) == 0;
        uint64_t count = box.drain();
        if (count != 0) {
          alive.value.fetch_sub(count, std::memory_order_relaxed);
          mine += count;
        } else if (last_round) {
          break;
        } else {
          std::this_thread::yield();
        }
      }
      mine += box.dispose(box.front);
      freed.value.fetch_add(mine);
    }
  });
  if (sent.value != freed.value) {
    bench::fail("%" PRIu64 " messages sent, %" PRIu64 " freed", sent.value.load(),
                freed.value.load());
  }
  bench::Result("message_passing", seconds, sent.value, team)
      .number("most_alive", static_cast<double>(most.value.load()))
      .print();
}
