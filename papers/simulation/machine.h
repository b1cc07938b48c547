// A simulated machine: processors with a clock each, and the cache lines that each holds. One
// processor runs at a time, and before each step that others could see, the one with the least
// clock goes first. README.md says what the model has and what it leaves out.
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

// Calls `body` with 0, 1, ... on as many processors. Each has a thread of its own, so what is
// thread-local, and what runs at a thread's end, is as on a real machine. Those ends come after
// the simulation, one by one.
void run(unsigned processors, const std::function<void(unsigned)>& body);

unsigned processors();
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
// operation. Looks that would find the same are left out: it returns when the line is written.
void spin();
void note_atomic(const volatile void* at);

// Until another processor wakes it, `cycles` after that one's clock. First come, first woken.
void sleep(const void* on);
void wake_one(const void* on, uint64_t cycles);
void wake_all(const void* on);

// The program itself wrote an object: its lines are here now. Not counted, and no time.
void hold(const void* at, size_t bytes);

}  // namespace machine
