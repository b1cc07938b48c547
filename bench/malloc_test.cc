// Producers allocate messages of 4096 objects, a lock-protected queue carries them, consumers free
// the objects.
//
// Source: malloc-test as the snmalloc paper uses it (ISMM 2019, section 3.1, figure 5: sizes of 8
// to 2048 bytes drawn anew for every object), which had it from SuperMalloc (Kuszmaul, ISMM 2015).
// With --min=64 --max=64 and a hundred threads of each kind it is xmalloc-test as the BatchIt paper
// runs it (ISMM 2024, section 4).
//
// The messages themselves are recycled, not allocated, and at most --queue of them are under way:
// without that bound a fast producer is punished with an ever larger live set (the snmalloc paper's
// figure 7), and the row would measure page faults. A fixed amount of work, not of time. Every
// object is stamped; one in 64 is read back before it is freed, since reading all would hide what
// an allocator saves that does not touch the objects it frees.
#include <condition_variable>
#include <mutex>

#include "common.h"

namespace {

struct Message {
  Message* next;
  uint64_t stamp;
  void* objects[1];
};

// First in, first out. A thread that finds nothing looks on for a while before it sleeps, if it has
// a CPU of its own: a wake-up costs more than a message.
class Queue {
 public:
  explicit Queue(bool spin) : spin_(spin) {}
  void push(Message* m) {
    m->next = nullptr;
    {
      std::lock_guard<std::mutex> guard(lock_);
      *tail_ = m;
      tail_ = &m->next;
      length_.fetch_add(1, std::memory_order_relaxed);
    }
    if (!spin_) filled_.notify_one();
  }
  // nullptr once the queue is closed and empty.
  Message* pop() {
    for (;;) {
      while (spin_ && length_.load(std::memory_order_relaxed) == 0 &&
             !closed_.load(std::memory_order_relaxed)) {
        bench::pause();
      }
      std::unique_lock<std::mutex> guard(lock_);
      if (!spin_) {
        filled_.wait(guard, [&] { return head_ != nullptr || closed_.load(); });
      }
      if (head_ != nullptr) {
        Message* m = head_;
        head_ = m->next;
        if (head_ == nullptr) tail_ = &head_;
        length_.fetch_sub(1, std::memory_order_relaxed);
        return m;
      }
      if (closed_.load()) return nullptr;
    }
  }
  void close() {
    {
      std::lock_guard<std::mutex> guard(lock_);
      closed_.store(true);
    }
    filled_.notify_all();
  }

 private:
  bool spin_;
  std::mutex lock_;
  std::condition_variable filled_;
  Message* head_ = nullptr;
  Message** tail_ = &head_;
  std::atomic<size_t> length_{0};
  std::atomic<bool> closed_{false};
};

uint64_t stamp_of(uint64_t message, uint64_t object) { return message << 20 ^ object; }

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t producers = arguments.number("producers", 1, 1, 1000);
  uint64_t consumers = arguments.number("consumers", 1, 1, 1000);
  uint64_t messages = arguments.number("messages", 4000);
  uint64_t objects = arguments.number("objects", 4096, 1, 1 << 20);
  uint64_t limit = arguments.number("queue", 100, 1, 100'000);
  auto min = static_cast<uint32_t>(arguments.number("min", 8, 8, 1 << 20));
  auto max = static_cast<uint32_t>(arguments.number("max", 2048, min, 1 << 20));
  arguments.finish();

  bench::Team team;
  bool spin = team.fits(producers + consumers);
  Queue ready(spin);
  Queue spare(spin);
  size_t bytes = sizeof(Message) + objects * sizeof(void*);
  bytes = (bytes + 63) / 64 * 64;
  bench::Table<char> storage(bytes * limit);
  for (uint64_t i = 0; i < limit; i++) {
    spare.push(reinterpret_cast<Message*>(&storage[i * bytes]));
  }

  std::atomic<uint64_t> taken{0};
  std::atomic<uint64_t> producing{producers};
  std::atomic<uint64_t> freed{0};
  double seconds = team.run(producers + consumers, [&](size_t index) {
    if (index < producers) {
      bench::Random random(index + 1);
      uint64_t number;
      while ((number = taken.fetch_add(1)) < messages) {
        Message* m = spare.pop();
        m->stamp = number;
        for (uint64_t i = 0; i < objects; i++) {
          auto* p = static_cast<uint64_t*>(bench::allocate(random.between(min, max)));
          *p = stamp_of(number, i);
          m->objects[i] = p;
        }
        ready.push(m);
      }
      if (producing.fetch_sub(1) == 1) ready.close();
    } else {
      uint64_t count = 0;
      while (Message* m = ready.pop()) {
        for (uint64_t i = 0; i < objects; i++) {
          if (i % 64 == 0 && *static_cast<uint64_t*>(m->objects[i]) != stamp_of(m->stamp, i)) {
            bench::fail("object %" PRIu64 " of message %" PRIu64 " was overwritten", i, m->stamp);
          }
          bench::release(m->objects[i]);
        }
        count += objects;
        spare.push(m);
      }
      freed.fetch_add(count);
    }
  });
  if (freed.load() != messages * objects) {
    bench::fail("%" PRIu64 " objects freed of %" PRIu64, freed.load(), messages * objects);
  }
  bench::Result("malloc_test", seconds, messages * objects, team).print();
}
