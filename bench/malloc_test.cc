// Producers allocate messages of 4096 objects, a lock-protected queue carries them, consumers free
// the objects.
//
// Source: malloc-test as the snmalloc paper uses it (ISMM 2019, section 3.1, figure 5: sizes of 8
// to 2048 bytes drawn anew for every object), which had it from SuperMalloc (Kuszmaul, ISMM 2015).
// With --min=64 --max=64 and a hundred threads of each kind it is xmalloc-test as the BatchIt paper
// runs it (ISMM 2024, section 4). With --marks=N the result has N times at which equal parts of the
// work were done: throughput from the start on (the snmalloc paper's figure 8).
//
// The messages themselves are recycled, not allocated, and at most --queue of them are under way:
// without that bound a fast producer is punished with an ever larger live set, and the row would
// measure page faults. A --queue that never fills and --touch=1, which writes every byte, show the
// memory against the queue's peak (the paper's figure 7); the result has that peak either way. A
// fixed amount of work, or with --seconds, as the papers have it, of time. Every object is stamped;
// one in 64 is read back before it is freed, since reading all would hide what an allocator saves
// that does not touch the objects it frees.
#include <condition_variable>
#include <mutex>

#include "common.h"

namespace {

struct Message {
  Message* next;
  uint64_t stamp;
  uint64_t bytes;
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
  uint64_t duration = arguments.number("seconds", 0, 0, 3600);
  uint64_t objects = arguments.number("objects", 4096, 1, 1 << 20);
  uint64_t limit = arguments.number("queue", 100, 1, 100'000);
  uint64_t marks = arguments.number("marks", 0, 0, 1000);
  bool touch = arguments.number("touch", 0, 0, 1) != 0;
  auto min = static_cast<uint32_t>(arguments.number("min", 8, 8, 1 << 20));
  auto max = static_cast<uint32_t>(arguments.number("max", 2048, min, 1 << 20));
  arguments.finish();
  if (duration != 0 && marks != 0) bench::fail("--marks are parts of --messages, not of --seconds");
  if (duration != 0) messages = UINT64_MAX;

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
  std::atomic<uint64_t> made{0};
  std::atomic<uint64_t> freed{0};
  struct alignas(128) {
    std::atomic<uint64_t> bytes{0};
    std::atomic<uint64_t> peak{0};
    std::atomic<uint64_t> messages{0};
  } live;
  bench::Table<double> marked(marks + 1);
  double start = bench::now();
  double seconds = team.run(producers + consumers, [&](size_t index) {
    if (index < producers) {
      bench::Random random(index + 1);
      uint64_t number;
      uint64_t count = 0;
      auto goes_on = [&] {
        return duration == 0 || bench::now() - start < static_cast<double>(duration);
      };
      while (goes_on() && (number = taken.fetch_add(1)) < messages) {
        Message* m = spare.pop();
        m->stamp = number;
        m->bytes = 0;
        for (uint64_t i = 0; i < objects; i++) {
          uint32_t size = random.between(min, max);
          auto* p = static_cast<uint64_t*>(bench::allocate(size));
          if (touch) std::memset(p, 1, size);
          *p = stamp_of(number, i);
          m->objects[i] = p;
          m->bytes += size;
        }
        uint64_t sum = live.bytes.fetch_add(m->bytes) + m->bytes;
        uint64_t seen = live.peak.load();
        while (seen < sum && !live.peak.compare_exchange_weak(seen, sum)) {
        }
        ready.push(m);
        count++;
      }
      made.fetch_add(count);
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
        live.bytes.fetch_sub(m->bytes);
        uint64_t done = live.messages.fetch_add(1) + 1;
        // The times of all marks that this message passed.
        for (uint64_t k = (done - 1) * marks / messages; k < done * marks / messages; k++) {
          marked[k] = bench::now() - start;
        }
        spare.push(m);
      }
      freed.fetch_add(count);
    }
  });
  if (duration == 0 && made != messages) bench::fail("%" PRIu64 " messages made", made.load());
  if (freed.load() != made * objects) {
    bench::fail("%" PRIu64 " objects freed of %" PRIu64, freed.load(), made * objects);
  }
  if (live.bytes != 0) bench::fail("%" PRIu64 " bytes were never freed", live.bytes.load());
  std::string times;
  for (uint64_t k = 0; k < marks; k++) {
    times += (k == 0 ? "[" : ", ") + std::to_string(marked[k]);
  }
  bench::Result result("malloc_test", seconds, made * objects, team);
  result.live(live.peak);
  if (marks != 0) result.json("marks", times + "]");
  result.print();
}
