// Threads of loft's own on Windows, and what happens at a thread's end.
#include <windows.h>

#include "os/os.h"
#include "os/own_thread.h"

namespace loft::os {

namespace {

constexpr size_t kStackBytes = 256 * 1024;

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

bool is_first_thread() { return false; }

Unseen::Unseen() : error_(GetLastError()) {}
Unseen::~Unseen() { SetLastError(error_); }

bool OwnThread::caller_may_create() { return true; }

// Until the thread has done its work, not until it is gone: at its end it waits for the loader's
// lock, which the caller may hold.
void OwnThread::join() {
  while (is_about_to_end()) doze();
  runs_.store(false, memory_order_relaxed);
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

void OwnThread::forget() {}

// The process ends when its first thread returns from main, whatever others do. One that ends that
// thread by ExitThread keeps loft's thread with it.
bool on_end_of_first_thread(void (*)(), bool) { return true; }

}  // namespace loft::os
