// What the tests control, in every program of unit, surface and storm: time, chance and where the
// heap lies. The linker sends the library's questions to control.cc (CMakeLists.txt lists them), so
// that a test ends the same way whenever and wherever it runs.
//
// The clock stands still until a test moves it. A thread of loft's own that naps for a time sleeps
// until the clock has got there. Two things take time by themselves: a pause in a spin fifty
// nanoseconds, and a return of memory to the system a microsecond. In a storm, all work does.
//
// What the system would draw by lot, and the place of the heap, follow from one seed: a fixed one,
// or that of the environment variable LOFT_TEST_SEED.
#pragma once

#include <cstddef>
#include <cstdint>

namespace loft::test {

constexpr uint64_t kMillisecond = 1'000'000;

// Moves the clock, and wakes who has napped for long enough.
void advance_ns(uint64_t nanoseconds);
inline void advance_ms(uint64_t milliseconds) { advance_ns(milliseconds * kMillisecond); }

// From now on the clock goes on by a microsecond with each reading, about what a slow path takes,
// so that some threads of a storm seem to rest while others work. Returns true.
bool let_work_take_time();

// Whether a thread naps on this word (os::wait_on_word_for), with time left.
bool naps_on(const void* word);

// A test's own numbers begin here.
uint64_t seed();

// Ends a process that hangs, as the child of a test, when its test would have been ended, too.
void end_what_hangs();

// From now on the heap's place is where the system says, as without the tests.
void let_the_system_place();

// As the library has it without the tests.
namespace system {
uint64_t now_ns();
void random_bytes(void* to, size_t bytes);
bool may_try_long_mappings();
}  // namespace system

// Within the scope, the system's clock runs. For tests of the night.
class RealTime {
 public:
  RealTime();
  ~RealTime();
  RealTime(const RealTime&) = delete;
  RealTime& operator=(const RealTime&) = delete;
};

}  // namespace loft::test
