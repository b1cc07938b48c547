// Magazines under every interleaving: threads that call, refill and flush, and the room that serves
// them and sleeps. Of the heap and of bins only what an array is filled with, and emptied of.
//
// Checked: the room sleeps through no call that is to wake it; each object is in one place; and
// nobody reads or writes an array, or what a slot and a list say of it, while it is the other
// side's.
#include "room/room.cc"

#include <algorithm>
#include <new>
#include <set>

#include "cache/arrays.h"
#include "cache/batch_cache.h"
#include "engine.h"
#include "heap/registry.h"
#include "space/metadata.h"

namespace {

using namespace loft;

constexpr unsigned kThreads = 2;
constexpr unsigned kCapacity = 3;
constexpr unsigned kArrays = 16;
constexpr unsigned kObjects = 16;
// Of the largest, the room clears a few at a time.
constexpr SizeClass kFirst = kSizeClasses - 1, kSecond = kFirst - 1;

struct World {
  Magazines magazines[kThreads];
  void* arrays[kArrays][kCapacity + 1] = {};
};
alignas(World) char world_memory[sizeof(World)];
World& world() { return *std::launder(reinterpret_cast<World*>(world_memory)); }

// Of the scenarios alone: not what is asked about.
alignas(Heap) char heap_memory[sizeof(Heap)];
Thread threads[kThreads];
alignas(64) char objects[kObjects][class_size(kFirst)];
unsigned arrays_made, objects_made, slots_served;
std::set<void*> in_heap;

Heap* heap() { return std::launder(reinterpret_cast<Heap*>(heap_memory)); }

void* new_object() {
  if (!in_heap.empty()) return in_heap.extract(in_heap.begin()).value();
  model::check(objects_made < std::size(objects), "the scenario has too few objects");
  return objects[objects_made++];
}
void give_back(void* object) {
  model::check(in_heap.insert(object).second, "an object came home twice");
}

void set_up() {
  new (world_memory) World;
  new (heap_memory) Heap(1);
  arrays_made = objects_made = slots_served = 0;
  in_heap.clear();
  for (unsigned t = 0; t < kThreads; ++t) {
    threads[t].heap = heap();
    threads[t].magazines = &world().magazines[t];
    for (const SizeClass c : {kFirst, kSecond}) {
      BinState& bin = threads[t].states[c];
      bin.capacity = kCapacity;
      bin.slots = bins::make_array(kCapacity);
      threads[t].bins[c] = Bin(bin.slots, bin.slots + kCapacity);
    }
  }
  room::state.store(room::kAwake, memory_order_relaxed);
  magazines::forget_calls(&threads[0]);
}

// As room::run, until so many slots were filled or emptied.
std::function<void()> the_room(unsigned slots) {
  return [=] {
    for (;;) {
      for (Magazines* caller = magazines::take_calls(); caller != nullptr;) {
        caller = magazines::serve(heap(), caller);
      }
      if (slots_served >= slots) return;
      model::check(room::sleep(), "the room left");
    }
  };
}

void fill_bin(Thread* thread, SizeClass size_class) {
  while (bins::count(thread, size_class) != kCapacity) {
    thread->bins[size_class].push(new_object());
  }
}

std::function<void()> takes(unsigned thread, std::initializer_list<SizeClass> classes) {
  return [=, classes = std::vector<SizeClass>(classes)] {
    for (const SizeClass c : classes) magazines::take(&threads[thread], request_of(c, 1), 1);
  };
}
std::function<void()> takes_zeros(unsigned thread, unsigned times) {
  return [=] {
    for (unsigned i = 0; i < times; ++i) {
      void* const object = magazines::take_zero(&threads[thread], request_of(kFirst, 1));
      if (object != nullptr) give_back(object);
    }
  };
}
std::function<void()> hands_over(unsigned thread, unsigned times) {
  return [=] {
    for (unsigned i = 0; i < times; ++i) {
      fill_bin(&threads[thread], kFirst);
      magazines::hand_over(&threads[thread], kFirst, kCapacity);
    }
  };
}

// Takes all back, as a thread does at its end: each object is there once.
void finish() {
  for (Thread& thread : threads) {
    magazines::empty(&thread);
    for (const SizeClass c : {kFirst, kSecond}) {
      Bin& bin = thread.bins[c];
      while (bins::count(&thread, c) != 0)
        bins::put_back(heap(), c, bin.top(), bin.top() + 1, nullptr), bin.pop();
    }
  }
  model::check(in_heap.size() == objects_made, "an object was lost");
}

std::vector<model::Scenario> scenarios() {
  const auto few_preemptions = [](const char* name, decltype(model::Scenario::tasks) tasks) {
    return model::Scenario{name, set_up, tasks, finish, 3};
  };
  return {
      few_preemptions("one calls for two classes", {takes(0, {kFirst, kSecond}), the_room(2)}),
      few_preemptions("two call", {takes(0, {kFirst}), takes(1, {kFirst}), the_room(2)}),
      few_preemptions("one takes what it called for",
                      {takes(0, {kFirst, kFirst, kFirst}), the_room(1)}),
      few_preemptions("one hands over", {hands_over(0, 3), the_room(1)}),
      few_preemptions("one asks for zeros", {takes_zeros(0, 3), the_room(1)}),
      // The room looks at all slots of a class for which it is called.
      few_preemptions("one hands over and takes", {[] {
                                                     hands_over(0, 1)();
                                                     takes(0, {kFirst})();
                                                   },
                                                   the_room(2)}),
      few_preemptions("one hands over and asks for zeros",
                      {[] {
                         hands_over(0, 1)();
                         magazines::take_zero(&threads[0], request_of(kFirst, 1));
                       },
                       the_room(2)}),
      few_preemptions("one takes all back while it is served", {[] {
                                                                  takes(0, {kFirst})();
                                                                  hands_over(0, 1)();
                                                                  magazines::empty_class(
                                                                      &threads[0], kFirst);
                                                                  takes(0, {kSecond})();
                                                                },
                                                                the_room(1)}),
  };
}

}  // namespace

// --- What the room's code needs of the floors below. ---

namespace loft {

constinit Pagemap pagemap;
constinit Window window;
constinit Seals* early_seals = nullptr;
void* no_objects[1];
constinit Thread stand_in;
constinit Atomic<uint32_t> limits::reasons{0};
limits::Totals limits::totals() { return {}; }
void* metadata::allocate(size_t) { return nullptr; }
Heap* registry::common_heap() { return heap(); }
void batch_cache::send_single(void*, Entry) {}
constinit Counter census::started, census::exited, census::blockless;

namespace bins {

unsigned first_capacity(SizeClass) { return 1; }
unsigned count(const Thread* thread, SizeClass size_class) {
  return static_cast<unsigned>(thread->bins[size_class].top() - thread->states[size_class].slots);
}
bool charge(Thread*, SizeClass, unsigned, unsigned) { return true; }
void** make_array(unsigned) {
  model::check(arrays_made < kArrays, "the scenario has too few arrays");
  return world().arrays[arrays_made++];
}
void release_array_of(void**, unsigned) {}

Array exchange(Thread* thread, SizeClass size_class, Array array, unsigned objects) {
  BinState& state = thread->states[size_class];
  const Array old = {state.slots, state.capacity};
  state.slots = array.slots;
  state.capacity = array.capacity;
  thread->bins[size_class] = Bin(array.slots + objects, array.slots + array.capacity);
  return old;
}

unsigned fill_array(Heap*, Request, void** slots, unsigned wanted) {
  for (unsigned i = 1; i <= wanted; ++i) slots[i] = new_object();
  ++slots_served;
  return wanted;
}

void put_back(Heap*, SizeClass, void** first, void** end, GiveForeign) {
  std::for_each(first, end, give_back);
  ++slots_served;
}

// Not on the ways that are explored.
unsigned plan_refill(Thread*, SizeClass, bool) { return 0; }
void* fill_bin(Thread*, Request, unsigned) { return nullptr; }
void* refill(Thread*, Request) { return nullptr; }
void flush(Thread*, SizeClass, unsigned) {}

}  // namespace bins

namespace os {

void wait_on_word_for(const void* word, uint32_t expected, uint64_t) {
  model::wait_on_word(word, expected);
}
void wake_one(const void* word) { model::wake_one(word); }
uint64_t now_ns() { return 0; }
void pause_briefly() {}
size_t page_size() { return 4096; }

int thread_number() { return 0; }
uint64_t thread_time_ns(int) { return 0; }
bool run_on(uint64_t) { return true; }
void report(const Text&) {}
void fault(const Text& what) { model::fail(std::string(what.data(), what.size())); }
void on_fork(void (*)(), void (*)(), void (*)()) {}
void ProcessorSet::read() {}
bool ProcessorSet::operator==(const ProcessorSet&) const { return true; }
size_t ProcessorSet::count() const { return 0; }
void ProcessorSet::apply() const {}
bool OwnThread::start(bool (*)()) { return false; }
void OwnThread::stop() {}
void OwnThread::end() {}
void OwnThread::forget() {}

}  // namespace os
}  // namespace loft

int main(int argc, char** argv) {
  options.room_serves.store(kServesAlways, memory_order_relaxed);
  model::declare_unexplored(&options, sizeof(options));
  model::declare_unexplored(&limits::reasons, sizeof(limits::reasons));
  model::declare_instrumented(world_memory, sizeof(world_memory));
  return model::explore_all(scenarios(), argc, argv);
}
