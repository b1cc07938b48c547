// The explorer: runs small programs of cooperative tasks through every interleaving of their shared
// accesses, and through every value that a load may return under release/acquire semantics.
//
// The code under test is compiled against atomic/base/atomic.h (and lock/os/lock.h) of this folder,
// whose every access comes here. Memory model: the stores to a location are ordered as they were
// made; a thread may read any of them that is not older than what it has already read, written, or
// learnt of by acquiring a release (views). A read-modify-write reads the newest and continues a
// release sequence. Plain data is checked for races with vector clocks.
//
// Search: depth first, by re-running the program; partial order reduction with backtrack sets and
// sleep sets, so that interleavings that differ in the order of independent steps run once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace model {

// --- For the code under test. Outside of a task each acts on the memory directly. ---

uint64_t load(const void* location, unsigned size, std::memory_order order);
void store(void* location, unsigned size, uint64_t value, std::memory_order order);
uint64_t exchange(void* location, unsigned size, uint64_t value, std::memory_order order);
uint64_t fetch_add(void* location, unsigned size, uint64_t value, std::memory_order order);
// Returns what was read; the exchange has happened if that is `expected`.
uint64_t compare_exchange(void* location, unsigned size, uint64_t expected, uint64_t value,
                          std::memory_order success, std::memory_order failure);

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

// Ends all other tasks where they stand, as a fork does in the child.
void end_other_tasks();

[[noreturn]] void fail(const std::string& what);
inline void check(bool condition, const char* what) {
  if (!condition) fail(what);
}

// Locations in [from, from + bytes) are never written while tasks run: no interleaving there.
void declare_constant(const void* from, size_t bytes);

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

// Explores each scenario in turn. Exit status for main: 0 if no violation was found, 1 if one was;
// with the argument --expect-violation the other way round.
int explore_all(const std::vector<Scenario>& scenarios, int argc, char** argv);

}  // namespace model
