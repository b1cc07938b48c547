// Threads of loft's own on Windows, and what happens at a thread's end.
#include <windows.h>

#include "base/keep_errno.h"
#include "os/os.h"
#include "os/own_thread.h"
#include "os/windows_error.h"

namespace loft::os {

namespace {

constexpr size_t kStackBytes = 256 * 1024;
constexpr uint64_t kPauseNs = 1'000'000'000;

// Release and acquire pair: a thread that sees the hook also sees what it needs.
constinit Atomic<void (*)(void*)> exit_hook{nullptr};
constinit __thread void* exit_value = nullptr;
constinit __thread bool has_ended = false;  // the hook has run, and does not run again

// The system calls it in each thread that ends by itself, after the program's own destructors: by
// the order of the sections, those of the C++ runtime come first. At the end of the process other
// threads may hold locks for ever: nothing is given back then.
void NTAPI at_thread_end(void*, DWORD reason, void*) {
  if (reason != DLL_THREAD_DETACH || exit_value == nullptr) return;
  void* const value = exit_value;
  exit_value = nullptr;
  has_ended = true;
  if (auto* const hook = exit_hook.load(memory_order_acquire); hook != nullptr) hook(value);
}

}  // namespace

// Between __xl_a and __xl_z, which the runtime's start-up object lists for the loader.
extern const PIMAGE_TLS_CALLBACK thread_end_callback;
[[gnu::section(".CRT$XLY"), gnu::used]] const PIMAGE_TLS_CALLBACK thread_end_callback =
    at_thread_end;

bool on_thread_exit(void (*hook)(void*)) {
  exit_hook.store(hook, memory_order_release);
  return true;
}

bool set_thread_exit_value(void* value) {
  if (has_ended) return false;
  exit_value = value;
  return true;
}

void* thread_exit_value() { return exit_value; }

void* OwnThread::begin(void* self) {
  auto* const thread = static_cast<OwnThread*>(self);
  thread->run_();
  // Relaxed: a thread that sees it next waits for nothing else of this thread.
  thread->has_returned_.store(true, memory_order_relaxed);
  return nullptr;
}

// Until the thread has done its work, not until it is gone: at its end it waits for the loader's
// lock, which the caller may hold.
void OwnThread::join() {
  while (is_about_to_end()) doze();
  runs_.store(false, memory_order_relaxed);
}

bool OwnThread::is_about_to_end() const {
  return runs_.load(memory_order_relaxed) && !has_returned_.load(memory_order_relaxed);
}

bool OwnThread::create() {
  const auto call = [](void* self) -> DWORD {
    begin(self);
    return 0;
  };
  has_returned_.store(false, memory_order_relaxed);
  const HANDLE thread =
      CreateThread(nullptr, kStackBytes, call, this, STACK_SIZE_PARAM_IS_A_RESERVATION, nullptr);
  if (thread != nullptr) CloseHandle(thread);
  runs_.store(thread != nullptr, memory_order_relaxed);
  return thread != nullptr;
}

// Relaxed, here and below: the thread acts on the word alone. Its creation orders all its other
// accesses.
bool OwnThread::start(bool (*may)()) {
  const KeepLastError keep;
  if (word_.load(memory_order_relaxed) != states_.nobody || is_about_to_end()) return false;
  if (now_ns() < next_try_.load(memory_order_relaxed)) return false;
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
  const KeepLastError keep;
  const Guard guard(lock_);
  if (!runs_.load(memory_order_relaxed)) return;
  word_.store(states_.leaving, memory_order_relaxed);
  wake_one(&word_);
  join();
  word_.store(states_.nobody, memory_order_relaxed);
}

void OwnThread::end() {
  const KeepLastError keep;
  const Guard guard(lock_);
  ended_ = true;
  word_.store(states_.refused, memory_order_relaxed);
  wake_one(&word_);
  join();
}

void OwnThread::forget() {}

// The process ends when its first thread returns from main, whatever others do. One that ends that
// thread by ExitThread keeps loft's thread with it.
bool on_end_of_first_thread(void (*)(), bool) { return true; }

}  // namespace loft::os
