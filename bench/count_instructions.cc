// Counts the instructions of malloc, free and their like one by one, for machines without hardware
// counters.
//
// Source: the figures of CONTRIBUTING.md and bench/ledger.toml are counts of instructions, so that
// they hold on any machine. This program starts itself a second time, as the program that allocates
// and frees, and single-steps that with ptrace (stepper.h). Only instructions outside the program
// itself count, from the first of malloc to its return: the loop, the call and the PLT stub are
// part of the program. --library=NAME counts those alone of the files whose names begin so: what
// libc copies and clears with depends on the processor. Calls and locked instructions are told
// apart by their opcodes. Of a malloc that refills its cache, the questions count, too: the
// conditional jumps that it meets, each once, however often a loop comes by.
//
// With still.so preloaded behind the allocator, what it does by time or by chance repeats, too.
#include "common.h"

#if !defined(__x86_64__)
int main() { bench::fail("only x86-64 is supported"); }
#else

#include <malloc.h>

#include <new>
#include <utility>

#include "stepper.h"

namespace {

using bench::Call;
using bench::Code;
using bench::Stepper;
using bench::stop_here;

constexpr size_t kSizes[] = {16, 64, 128, 512, 4096, 32768};
constexpr uint64_t kPairs = 32;
constexpr uint64_t kRefillObjects = 1024;  // some of which need a refill
constexpr int kWarmUpPairs = 10'000;
constexpr int kWarmUpLong = 500;
constexpr size_t kRefillSize = 64;
constexpr size_t kRemoteSize = 64;
constexpr int kWarmUpRounds = 20;
constexpr int kThreadRounds = 8;
// Of many objects, so many in a row are stepped through, at so many places.
constexpr size_t kWindow = 512;
constexpr size_t kWindows = 4;

// Each part to be counted stands between two stops; what is before the first warms up.

void counted(int warm_up, uint64_t count, void (*operation)()) {
  for (int i = 0; i < warm_up; i++) operation();
  stop_here();
  for (uint64_t i = 0; i < count; i++) operation();
  stop_here();
}

template <size_t size>
void pair() {
  bench::release(bench::allocate(size));
}
void zeroed() {
  void* p = std::calloc(1, 64);
  bench::escape(p);
  bench::release(p);
}
void aligned() {
  void* p = memalign(64, 192);
  bench::escape(p);
  bench::release(p);
}
void resized() {
  static void* p = bench::allocate(100);
  static size_t size = 100;
  size = 204 - size;
  void* q = std::realloc(p, size);
  bench::escape(q);
  if (q != p) bench::fail("realloc within a size class moved the object");
}
// To another length and back.
template <size_t one, size_t other>
void moved() {
  static void* p = bench::allocate(one);
  static size_t size = one;
  size = one + other - size;
  p = std::realloc(p, size);
  bench::escape(p);
}
void sized() {
  void* p = ::operator new(64);
  bench::escape(p);
  ::operator delete(p, size_t{64});
}
void at_pages() {
  void* p = memalign(4096, 48 << 10);
  bench::escape(p);
  bench::release(p);
}
template <size_t count>
void ring() {
  static void* alive[count];
  static size_t next = 0;
  void*& p = alive[next++ % std::size(alive)];
  bench::release(p);
  p = bench::allocate(48 << 10);
}
void lengths_in_turn() {
  static size_t next = 0;
  bench::release(bench::allocate((48 << 10) + (next++ % 4 << 14)));
}
void random_lengths() {
  static void* alive[8];
  static bench::Random random(1);
  void*& p = alive[random.below(std::size(alive))];
  bench::release(p);
  p = bench::allocate(random.between(33 << 10, 133 << 10));
}

struct Case {
  const char* name;
  void (*operation)();
  bool is_long;
  // Which of the calls of an operation counts.
  size_t first, behind, of;
};

constexpr Case kCases[] = {
    {"malloc of 64 B", pair<64>, false, 0, 1, 2},
    {"free of 64 B", pair<64>, false, 1, 2, 2},
    {"calloc of 64 B", zeroed, false, 0, 1, 2},
    {"realloc in place", resized, false, 0, 1, 1},
    {"memalign(64, 192)", aligned, false, 0, 1, 2},
    {"sized delete of 64 B", sized, false, 1, 2, 2},
    {"pair of 2 KiB", pair<(2 << 10)>, false, 0, 2, 2},
    {"pair of 48 KiB, one alive", pair<(48 << 10)>, true, 0, 2, 2},
    {"pair of 48 KiB, sixteen alive", ring<16>, true, 0, 2, 2},
    {"pair of 33 to 133 KiB, eight alive", random_lengths, true, 0, 2, 2},
    {"pair of 900 KiB", pair<(900 << 10)>, true, 0, 2, 2},
    {"pair of 48 KiB, eight alive", ring<8>, true, 0, 2, 2},
    {"pair of 48 KiB, 32 alive", ring<32>, true, 0, 2, 2},
    {"pair of 48, 64, 80 and 96 KiB, in turn", lengths_in_turn, true, 0, 2, 2},
    {"memalign(4096, 48 KiB) and free", at_pages, true, 0, 2, 2},
    {"realloc from 100 to 300 B and back", moved<100, 300>, false, 0, 1, 1},
    {"realloc from 97 to 98 KiB and back", moved<97 << 10, 98 << 10>, true, 0, 1, 1},
    {"realloc from 40 to 100 KiB and back", moved<40 << 10, 100 << 10>, true, 0, 1, 1},
};

// How many operations are stepped through.
struct Counts {
  uint64_t remote;
  uint64_t of_sizes;
  uint64_t long_pairs;
  uint64_t many;
  uint64_t scattered;
  std::vector<std::string> arguments() const {
    const auto argument = [](const char* name, uint64_t value) {
      return "--" + std::string(name) + "=" + std::to_string(value);
    };
    return {argument("remote", remote), argument("pairs", of_sizes), argument("long", long_pairs),
            argument("many", many), argument("scattered", scattered)};
  }
  uint64_t of(const Case& each) const { return each.is_long ? long_pairs : kPairs; }
};

void put_in_random_order(bench::Table<size_t>& order) {
  for (size_t i = 0; i < order.size(); i++) order[i] = i;
  bench::Random random(1);
  for (size_t i = order.size(); i > 1; i--) {
    std::swap(order[i - 1], order[random.below(static_cast<uint32_t>(i))]);
  }
}

void many_objects(size_t count) {
  bench::Table<void*> kept(count);
  bench::Table<size_t> order(count);
  put_in_random_order(order);
  // Freed before: the slabs have what is more than the cache holds.
  for (void*& p : kept) p = bench::allocate(kRefillSize);
  for (void* p : kept) bench::release(p);
  stop_here();
  for (void*& p : kept) p = bench::allocate(kRefillSize);
  stop_here();
  for (size_t i : order) bench::release(kept[i]);
  stop_here();
}

// Objects of many slabs. A bin is full for most of the time, so it is flushed once for each half.
void scattered_objects(size_t count) {
  bench::Table<void*> kept(count);
  const auto allocate_all = [&] {
    for (void*& p : kept) p = bench::allocate(kRefillSize);
  };
  const auto release_in_windows = [&](const auto& place) {
    const size_t apart = count / kWindows;
    const size_t first = (apart - kWindow) / 2;
    for (size_t i = 0; i < count; i++) {
      if (i % apart == first || i % apart == first + kWindow) stop_here();
      bench::release(kept[place(i)]);
    }
  };
  bench::Table<size_t> order(count);
  put_in_random_order(order);
  allocate_all();
  release_in_windows([&](size_t i) { return order[i]; });
  allocate_all();
  release_in_windows([](size_t i) { return i; });
  allocate_all();
  // Those that stay are scattered, too. First come objects that the cache holds.
  const size_t freed = count / 4 * 3;
  for (size_t i = 0; i < freed; i++) bench::release(kept[order[i]]);
  for (size_t i = 0; i < freed / 2; i++) bench::allocate(kRefillSize);
  stop_here();
  for (size_t i = 0; i < kWindow; i++) bench::allocate(kRefillSize);
  stop_here();
}

struct Remote {
  bench::Table<void*> objects;
  int cpu;
};

// The owner of what the first thread frees. When it allocates anew, it has back what was freed.
void* own(void* argument) {
  auto& shared = *static_cast<Remote*>(argument);
  bench::pin(shared.cpu);
  for (;;) {
    for (void*& p : shared.objects) p = bench::allocate(kRemoteSize);
    stop_here();
  }
}

void free_remotely(size_t count, int cpu) {
  auto* shared = new Remote{bench::Table<void*>(count), cpu};
  pthread_t owner;
  if (pthread_create(&owner, nullptr, own, shared) != 0) bench::fail("no thread started");
  for (int round = 0; round <= kWarmUpRounds; round++) {
    stop_here();
    for (void* p : shared->objects) bench::release(p);
  }
  stop_here();
}

void* live_shortly(void*) {
  stop_here();
  bench::release(bench::allocate(64));
  return nullptr;
}

void start_threads() {
  for (int round = 0; round < kThreadRounds; round++) {
    pthread_t thread;
    stop_here();
    if (pthread_create(&thread, nullptr, live_shortly, nullptr) != 0) {
      bench::fail("no thread started");
    }
    stop_here();
    pthread_join(thread, nullptr);
  }
  stop_here();
}

[[noreturn]] void be_stepped(const Counts& counts, int other_cpu) {
  counted(kWarmUpPairs, counts.of_sizes, pair<16>);
  counted(kWarmUpPairs, counts.of_sizes, pair<64>);
  counted(kWarmUpPairs, counts.of_sizes, pair<128>);
  counted(kWarmUpPairs, counts.of_sizes, pair<512>);
  counted(kWarmUpPairs, counts.of_sizes, pair<4096>);
  counted(kWarmUpPairs, counts.of_sizes, pair<32768>);
  for (const Case& each : kCases) {
    counted(each.is_long ? kWarmUpLong : kWarmUpPairs, counts.of(each), each.operation);
  }
  many_objects(counts.many);
  start_threads();
  free_remotely(counts.remote, other_cpu);
  if (counts.scattered != 0) scattered_objects(counts.scattered);
  _exit(0);
}

Call median(std::vector<Call> calls) {
  std::sort(calls.begin(), calls.end(),
            [](const Call& a, const Call& b) { return a.instructions < b.instructions; });
  return calls[calls.size() / 2];
}

Call sum(const std::vector<Call>& calls) {
  Call all;
  for (const Call& each : calls) {
    all.instructions += each.instructions;
    all.locked += each.locked;
  }
  return all;
}

double mean(uint64_t instructions, size_t of) {
  return static_cast<double>(instructions) / static_cast<double>(of);
}

// The result, a line of JSON. Steps of the program follow in the order of be_stepped.
class Counter {
 public:
  Counter(pid_t pid, const std::string& library, const Counts& counts)
      : main_(pid), library_(library), counts_(counts) {}

  void count(const std::vector<int>& cpus) {
    json_ = "{\"bench\": \"count_instructions\", \"pairs\": [";
    for (size_t size : kSizes) count_pairs(size);
    json_ += "]";
    for (const Case& each : kCases) count_case(each);
    count_many();
    count_threads();
    count_remote(counts_.remote, cpus);
    if (counts_.scattered != 0) count_scattered();
    json_ += ", \"cases\": {" + cases_ + "}}";
    std::puts(json_.c_str());
  }

 private:
  // All libraries are there, once the program is at its first stop.
  std::vector<Call> step(Stepper& thread) { return thread.step(Code(main_.thread(), library_)); }

  std::vector<Call> step_to_stop(size_t expected) {
    main_.run();
    std::vector<Call> calls = step(main_);
    if (expected != calls.size()) {
      bench::fail("%zu calls seen, not %zu: malloc or free is part of the program", calls.size(),
                  expected);
    }
    return calls;
  }

  __attribute__((format(printf, 1, 2))) static std::string print(const char* format, ...) {
    char text[512];
    va_list values;
    va_start(values, format);
    std::vsnprintf(text, sizeof text, format, values);
    va_end(values);
    return text;
  }

  void add_case(const char* name, double instructions) {
    if (!cases_.empty()) cases_ += ", ";
    cases_ += print("\"%s\": %.2f", name, instructions);
  }
  void add_case(const char* name, uint64_t instructions, size_t of) {
    add_case(name, mean(instructions, of));
  }

  void count_pairs(size_t size) {
    std::vector<Call> both = step_to_stop(2 * counts_.of_sizes);
    std::vector<Call> mallocs;
    std::vector<Call> frees;
    for (size_t i = 0; i < both.size(); i++) (i % 2 == 0 ? mallocs : frees).push_back(both[i]);
    const Call fast_malloc = median(mallocs);
    const Call fast_free = median(frees);
    if (size == 64) {
      add_case("malloc and free of 64 B, at the median",
               fast_malloc.instructions + fast_free.instructions, 1);
    }
    // Those that left the cached path now and then, for a cache refilled or trimmed.
    size_t slow = 0;
    for (const Call& call : mallocs) slow += call.instructions > fast_malloc.instructions;
    for (const Call& call : frees) slow += call.instructions > fast_free.instructions;
    json_ +=
        print("%s{\"size\": %zu, \"malloc\": %" PRIu64 ", \"free\": %" PRIu64 ", \"pair\": %" PRIu64
              ", \"calls\": %" PRIu64 ", \"locked\": %" PRIu64 ", \"slow\": %zu}",
              size == kSizes[0] ? "" : ", ", size, fast_malloc.instructions, fast_free.instructions,
              fast_malloc.instructions + fast_free.instructions,
              fast_malloc.calls + fast_free.calls, fast_malloc.locked + fast_free.locked, slow);
  }

  void count_case(const Case& each) {
    const size_t count = counts_.of(each);
    std::vector<Call> calls = step_to_stop(count * each.of);
    uint64_t instructions = 0;
    for (size_t i = 0; i < calls.size(); i++) {
      const size_t place = i % each.of;
      if (place >= each.first && place < each.behind) instructions += calls[i].instructions;
    }
    add_case(each.name, instructions, count);
  }

  void count_many() {
    std::vector<Call> refills = step_to_stop(counts_.many);
    add_case("malloc of 64 B, with its refills", sum(refills).instructions, refills.size());
    const uint64_t cached = median(refills).instructions;
    std::erase_if(refills, [=](const Call& call) { return call.instructions <= cached; });
    if (refills.empty()) bench::fail("no refill seen");
    // The one that finds all that it needs in a slab, and has nothing else to look after.
    const Call refill = *std::min_element(
        refills.begin(), refills.end(),
        [](const Call& a, const Call& b) { return a.questions.size() < b.questions.size(); });
    json_ += print(", \"refill\": {\"size\": %zu, \"seen\": %zu, \"instructions\": %" PRIu64
                   ", \"questions\": %zu}",
                   kRefillSize, refills.size(), refill.instructions, refill.questions.size());
    add_case("the shortest refill of 64 B", refill.instructions, 1);
    add_case("its conditional jumps, each once", refill.questions.size(), 1);
    add_case("free of 64 B, in random order", sum(step(main_)).instructions, counts_.many);
  }

  // What the slow ones of some calls take, for each object.
  static double slow_part(const std::vector<Call>& calls) {
    const uint64_t fast = median(calls).instructions;
    uint64_t slow = 0;
    for (const Call& call : calls) slow += call.instructions > fast ? call.instructions : 0;
    return static_cast<double>(slow) / static_cast<double>(calls.size());
  }

  void count_scattered() {
    const auto frees = [&] {
      std::vector<Call> all;
      for (size_t window = 0; window < kWindows; window++) {
        const std::vector<Call> some = step_to_stop(kWindow);
        all.insert(all.end(), some.begin(), some.end());
      }
      return all;
    };
    const std::vector<Call> random = frees();
    add_case("free of 64 B, many in random order", sum(random).instructions, random.size());
    add_case("of these, flushes, an object", slow_part(random));
    add_case("flushes of 64 B in runs, an object", slow_part(frees()));
    add_case("refills of 64 B from scattered places, an object", slow_part(step_to_stop(kWindow)));
  }

  // All that its start, a pair and its end take, in both threads.
  void count_threads() {
    for (int round = 1; round < kThreadRounds; round++) {
      main_.run();
      main_.run();
      Stepper thread(main_.take_new_thread());
      thread.run();
      thread.run();
    }
    main_.run();
    uint64_t instructions = sum(step(main_)).instructions;
    Stepper thread(main_.take_new_thread());
    thread.run();
    instructions += sum(step(thread)).instructions;
    instructions += sum(step(main_)).instructions;
    add_case("start and end of a thread, and a pair of 64 B", instructions, 1);
  }

  void count_remote(size_t objects, const std::vector<int>& cpus) {
    main_.run();
    Stepper owner(main_.take_new_thread());
    const auto of_owner = [&] { bench::pin(cpus.back()); };
    const auto of_main = [&] { bench::pin(cpus.front()); };
    owner.run();
    for (int round = 0; round < kWarmUpRounds; round++) {
      main_.run();
      owner.run();
    }
    std::vector<Call> frees = step(main_);
    of_owner();
    const uint64_t mallocs = sum(step(owner)).instructions;
    of_main();
    if (frees.size() != objects) bench::fail("%zu remote frees seen", frees.size());
    const Call all = sum(frees);
    json_ += print(", \"remote_free\": {\"size\": %zu, \"objects\": %zu, \"median\": %" PRIu64
                   ", \"mean\": %.2f, \"locked_per_object\": %.5f}",
                   kRemoteSize, objects, median(frees).instructions,
                   mean(all.instructions, objects), mean(all.locked, objects));
    add_case("remote free of 64 B", all.instructions, objects);
    add_case("malloc of 64 B that drains these", mallocs, objects);
  }

  Stepper main_;
  std::string library_;
  Counts counts_;
  std::string json_{};
  std::string cases_{};
};

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  const Counts counts = {arguments.number("remote", 4096, 1, 1'000'000),
                         arguments.number("pairs", kPairs, 1, 1'000'000),
                         arguments.number("long", kPairs, 1, 1'000'000),
                         arguments.number("many", kRefillObjects, 1, 1'000'000),
                         arguments.number("scattered", 0, 0, 1'000'000)};
  const std::string library = arguments.word("library", "");
  const uint64_t other_cpu = arguments.number("stepped", CPU_SETSIZE, 0, CPU_SETSIZE);
  arguments.finish();
  if (counts.scattered != 0 && counts.scattered < 2 * kWindows * kWindow) {
    bench::fail("--scattered is 0 or above %zu", 2 * kWindows * kWindow);
  }
  if (other_cpu != CPU_SETSIZE) be_stepped(counts, static_cast<int>(other_cpu));

  // Both processes on one CPU: a step is then a switch, not a wake-up of another CPU. The thread
  // whose objects are freed has another: with owner=cpu no free would be remote else.
  const std::vector<int> cpus = bench::allowed_cpus();
  bench::pin(cpus.front());
  std::vector<std::string> command = counts.arguments();
  command.insert(command.begin(), "/proc/self/exe");
  command.push_back("--stepped=" + std::to_string(cpus.back()));
  const pid_t pid = bench::start_traced(command, nullptr);
  Counter(pid, library, counts).count(cpus);
  kill(pid, SIGKILL);
}

#endif
