#include "files/handler.h"

#include "base/macros.h"
#include "os/fault.h"
#include "os/os.h"

namespace loft::files {

namespace {

// This thread is in a handler, whose own text is told on standard error alone.
constinit LOFT_TLS __thread bool in_handler = false;

constinit Handler messages;

void tell_message(const char* text, size_t bytes) {
  if (!messages.call(text, bytes)) os::write_error(text, bytes);
}

}  // namespace

// A thread that is stopped in the middle of a change, or was when its process forked, is not waited
// for: there is no handler then.
LOFT_AT_LOAD Handler::Called Handler::present() const {
  for (int i = 0; i < 1000; ++i) {
    const unsigned before = changes_.load();
    const Called called = {function_.load(), closure_.load()};
    if (before % 2 == 0 && changes_.load() == before) return called;
  }
  return {nullptr, nullptr};
}

// The child of a fork finds the number odd if another thread was setting a handler: it goes on from
// there, and the number is even again after its own change.
void Handler::set(TextHandler function, void* closure) {
  const unsigned odd = changes_.load() | 1;
  changes_.store(odd);
  function_.store(function);
  closure_.store(closure);
  changes_.store(odd + 1);
}

bool Handler::call(const char* text, size_t bytes) const {
  const Called called = present();
  if (called.function == nullptr || in_handler) return false;
  const bool at_fault = os::at_fault;
  in_handler = true;
  os::at_fault = true;
  called.function(text, bytes, called.with);
  os::at_fault = at_fault;
  in_handler = false;
  return true;
}

bool in_a_handler() { return in_handler; }

void set_message_handler(TextHandler function, void* closure) {
  messages.set(function, closure);
  os::on_text.store(tell_message, memory_order_release);
}

}  // namespace loft::files
