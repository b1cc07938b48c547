// When a thread of loft's own starts and ends: its states.
#include "os/own_thread.h"

#include "os/os.h"

namespace loft::os {

namespace {

constexpr uint64_t kPauseNs = 1'000'000'000;

}  // namespace

void* OwnThread::begin(void* self) {
  auto* const thread = static_cast<OwnThread*>(self);
  thread->run_();
  // Relaxed: who sees it joins the thread next.
  thread->has_returned_.store(true, memory_order_relaxed);
  return nullptr;
}

bool OwnThread::is_about_to_end() const {
  return runs_.load(memory_order_relaxed) && !has_returned_.load(memory_order_relaxed);
}

// Relaxed, here and below: the thread acts on the word alone. Its creation orders its other
// accesses, and so does its join.
bool OwnThread::start(bool (*may)()) {
  const Unseen unseen;
  if (word_.load(memory_order_relaxed) != states_.nobody || is_about_to_end()) return false;
  if (now_ns() < next_try_.load(memory_order_relaxed) || !caller_may_create()) return false;
  // The lock's holder starts the thread or waits for its end. Callers of start wait for neither.
  if (!lock_.try_lock()) return false;
  bool started = false;
  if (!ended_ && !is_about_to_end()) {
    join();
    uint32_t expected = states_.nobody;
    if (may() && word_.compare_exchange_strong(expected, states_.running, memory_order_relaxed)) {
      started = create();
      if (!started) {
        next_try_.store(now_ns() + kPauseNs, memory_order_relaxed);
        word_.store(states_.nobody, memory_order_relaxed);
      }
    }
  }
  lock_.unlock();
  return started;
}

void OwnThread::stop() {
  const Unseen unseen;
  const Guard guard(lock_);
  if (!runs_.load(memory_order_relaxed)) return;
  word_.store(states_.leaving, memory_order_relaxed);
  wake_one(&word_);
  join();
  word_.store(states_.nobody, memory_order_relaxed);
}

void OwnThread::end() {
  const Unseen unseen;
  const Guard guard(lock_);
  ended_ = true;
  word_.store(states_.refused, memory_order_relaxed);
  wake_one(&word_);
  join();
}

}  // namespace loft::os
