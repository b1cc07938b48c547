// A simulated machine: processors with a clock each, and the cache lines that each holds. One
// processor runs at a time, and before each step that others could see, the one with the least
// clock goes first. One more processor may run an allocator's own thread, the room. README.md says
// what the model has and what it leaves out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace machine {

// Cycles. An instruction that reads or writes takes one. A miss and an atomic operation take what
// NextGen-Malloc 4.1 assumes. The last three are orders of magnitude: a pause in a spin, a call of
// the system that sleeps or wakes, and a nanosecond.
inline constexpr uint64_t kMiss = 214;
inline constexpr uint64_t kAtomic = 67;
inline constexpr uint64_t kPause = 40;
inline constexpr uint64_t kSystemCall = 3000;
inline constexpr uint64_t kNanosecond = 3;

inline constexpr unsigned kMostProcessors = 4096;

// What the code inside an allocator did, on all processors.
struct Tally {
  uint64_t accesses = 0;  // instructions that read or wrote memory
  uint64_t atomics = 0;   // of these, locked ones
  uint64_t moves = 0;     // lines that came from another processor, or were taken from others
  uint64_t fetches = 0;   // lines that no processor held
  bool operator==(const Tally&) const = default;
};
extern Tally tally;

// What a processor looked for in its caches and did not find, in the program's code and in the
// allocator's.
struct Misses {
  uint64_t loads = 0, stores = 0;            // lines
  uint64_t transfers = 0;                    // lines from the room, or to it; no others' misses
  uint64_t page_loads = 0, page_stores = 0;  // translations
};

struct Shape {
  unsigned processors;        // of the program
  size_t lines = 0;           // that the cache of each has room for; 0: for all
  size_t pages = 0;           // the same of its translations
  bool room = false;          // there is one more processor, for the first thread that is started
  size_t room_lines = 0;      // of its cache
  uint64_t transfer = kMiss;  // cycles that a line takes to that processor or from it
};

// Calls `body` with 0, 1, ... on as many processors. Each has a thread of its own, so what is
// thread-local, and what runs at a thread's end, is as on a real machine. Those ends come after
// the simulation, one by one.
void run(const Shape& shape, const std::function<void(unsigned)>& body);
inline void run(unsigned processors, const std::function<void(unsigned)>& body) {
  run(Shape{.processors = processors}, body);
}

// Gives `room` the processor that waits for it, for the rest of the simulation. False without one.
bool start_room(void (*room)());

unsigned processors();  // of the program
Misses misses_of_program();
Misses misses_of_room();
bool is_inside();  // the caller is a simulated processor within a scope of the next class

// The scope of the allocator's code, which is what is counted and takes time.
class Inside {
 public:
  Inside();
  ~Inside();
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

// The rest is for code that runs on a simulated processor.

unsigned processor();
uint64_t clock();

void access(const volatile void* at, size_t bytes, bool writes);
void advance(uint64_t cycles);
void let_others();  // those with a lesser clock

// Between two looks at a word that another processor will change, the line of the last atomic
// operation. Looks that would find the same are left out: it returns when the line is written. The
// room looks at the words of many, and makes all its looks.
void spin();
void note_atomic(const volatile void* at);

// Until another processor wakes it, `cycles` after that one's clock. First come, first woken.
void sleep(const void* on);
void wake_one(const void* on, uint64_t cycles);
void wake_all(const void* on);

// An access of the program itself. Not in the tally.
void use(const void* at, size_t bytes, bool writes);
// The program wrote an object. Where caches have room for all it takes no time, and no line of it
// is a miss: they are here now.
void hold(const void* at, size_t bytes);

}  // namespace machine
