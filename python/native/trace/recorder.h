// Who notes the calls of a process that is recorded: buffers, threads and the way out.
//
// Each thread has a buffer of one chunk, in a file of the process that is mapped shared: what a
// process had noted when it ended, however it did, lies there for `loft record` to collect. A full
// buffer is written to the pipe that `loft record` reads. Nothing here allocates by malloc.
#ifndef LOFT_TRACE_RECORDER_H_
#define LOFT_TRACE_RECORDER_H_

#include <pthread.h>
#include <time.h>

#include "format.h"

namespace recorder {

// Calls of a signal handler that interrupted the noting of another call wait here. One writes (the
// handler), one reads (whom it interrupted), both on the same thread.
inline constexpr uint32_t kWaiting = 32;

struct Thread {
  trace::ChunkHeader* chunk;
  trace::Base base;
  uint32_t number;
  uint32_t serial;
  // Rounds of destructors that are still to come at the thread's end.
  int rounds;
  bool inside;
  // Until the program's thread is known: what it was started with.
  void* (*body)(void*);
  void* argument;
  pthread_t handle;
  // Once `handle` is known.
  bool known;
  bool joined;
  Thread* next;
  Thread* next_ended;
  uint32_t waiting_from;
  uint32_t waiting_to;
  trace::Event waiting[kWaiting];
};

// One page that a forked child finds cleared: then it is a process that has not begun.
extern const int* begun;
extern bool recording;
extern thread_local Thread* own __attribute__((tls_model("initial-exec")));
extern uint64_t tickets;

void begin();
Thread* attach();

// The calling thread, or none if its calls are not recorded.
inline Thread* here() {
  if (__builtin_expect(begun == nullptr || *begun == 0, 0)) begin();
  if (!recording) return nullptr;
  return __builtin_expect(own != nullptr, 1) ? own : attach();
}

// Relaxed: whoever frees takes its number before the call, and whoever is given the memory takes
// its own after the call. The allocator orders the one before the other, so the counter does too.
inline uint64_t ticket() { return __atomic_add_fetch(&tickets, 1, __ATOMIC_RELAXED); }

inline uint64_t ticks() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  const uint64_t nanoseconds =
      static_cast<uint64_t>(time.tv_sec) * 1000000000 + static_cast<uint64_t>(time.tv_nsec);
  return nanoseconds / trace::kTick;
}

void note(Thread* thread, const trace::Event& event);

// A thread that is about to be started, and its own first step.
Thread* expect(void* (*body)(void*), void* argument);
void start(Thread* thread);
void started(Thread* thread, pthread_t handle);
// The number of the thread with this handle, which is about to be waited for; null if unknown.
Thread* find(pthread_t handle);

}  // namespace recorder

#endif  // LOFT_TRACE_RECORDER_H_
