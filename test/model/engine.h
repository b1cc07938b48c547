// The explorer: runs small programs of cooperative tasks through every interleaving of their shared
// accesses, and through every value that a load may return under release/acquire semantics.
//
// The code under test is compiled against atomic/base/atomic.h (and lock/os/lock.h) of this folder,
// whose every access comes here. Memory model: the stores to a location are ordered as they were
// made; a thread may read any of them that is not older than what it has already read, written, or
// learnt of by acquiring a release (views). A read-modify-write reads the newest and continues a
// release sequence. A fence of release gives its knowledge to later stores, one of acquire takes
// that of earlier loads, and the seq_cst ones each know what those before them did. Plain data is
// checked for races with vector clocks.
//
// Of what C++ allows, this leaves out: two threads' stores to one word in another order than they
// were made in; a load that reads what is stored later; a compare_exchange that fails on an older
// value, or for nothing. Only fences may be seq_cst.
//
// Search: depth first, by re-running the program; partial order reduction with backtrack sets and
// sleep sets, so that interleavings that differ in the order of independent steps run once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <string>
#include <vector>

namespace model {

// --- For the code under test. Outside of a task each acts on the memory directly. ---

using Place = std::source_location;

uint64_t load(const void* location, unsigned size, std::memory_order order, Place place);
void store(void* location, unsigned size, uint64_t value, std::memory_order order, Place place);
uint64_t exchange(void* location, unsigned size, uint64_t value, std::memory_order order,
                  Place place);
uint64_t fetch_add(void* location, unsigned size, uint64_t value, std::memory_order order,
                   Place place);
uint64_t fetch_or(void* location, unsigned size, uint64_t value, std::memory_order order,
                  Place place);
// Returns what was read; the exchange has happened if that is `expected`.
uint64_t compare_exchange(void* location, unsigned size, uint64_t expected, uint64_t value,
                          std::memory_order success, std::memory_order failure, Place place);
void fence(std::memory_order order, Place place);

void lock(void* lock);
bool try_lock(void* lock);
void unlock(void* lock);

void wait_on_word(const void* word, uint32_t expected);
void wake_one(const void* word);

// --- For the scenarios. ---

// A plain access to the word at `location`: a violation if another task's access to it is not
// ordered with this one.
void plain_read(const void* location);
void plain_write(const void* location);

// The same, of code whose accesses the compiler reports, and only where a scenario declares it.
void instrumented_read(const void* location);
void instrumented_write(const void* location);
void declare_instrumented(const void* from, size_t bytes);

// Ends all other tasks where they stand, as a fork does in the child.
void end_other_tasks();

[[noreturn]] void fail(const std::string& what);
inline void check(bool condition, const char* what) {
  if (!condition) fail(what);
}

// No interleaving at the locations in [from, from + bytes): each task sees the last store. For what
// is not written while tasks run, or is not what a scenario asks about.
void declare_unexplored(const void* from, size_t bytes);

// Atomic accesses of tasks must fall into one of the ranges declared; none declared: anywhere.
void declare_memory(const void* from, size_t bytes);

struct Scenario {
  const char* name;
  std::function<void()> prepare;  // before every run: puts everything back to its first state
  std::vector<std::function<void()>> tasks;
  std::function<void()> finish;  // after every run: drains and checks
  unsigned preemptions = ~0u;    // bound on switches away from a task that could go on
  unsigned long runs = 300000;   // bound on runs; reaching it is reported, and is no violation
  bool own_process = false;  // each run in a child: for code with a state that nothing puts back
};

// A weaker order that no scenario notices.
struct Unnoticed {
  const char* file;    // in src/
  const char* text;    // in the line of the operation
  const char* change;  // as the explorer prints it: "load acquire -> relaxed"
  const char* why;
};

// Explores each scenario in turn. Exit status for main: 0 if no violation was found, 1 if one was.
//
// --expect-violation   the other way round
// --weaken-each        then, once for each place in the source that asks for an order and each
//                      order that is weaker by a step, explores what reaches the place, with that
//                      order. 0 if exactly those of `unnoticed` make no difference, and all of them
//                      were met.
int explore_all(const std::vector<Scenario>& scenarios, int argc, char** argv,
                const std::vector<Unnoticed>& unnoticed = {});

}  // namespace model
