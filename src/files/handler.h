// A function of the program that is called with text. It is called wherever the text arises: inside
// of calls, with locks of any floor held. Any thread may call it at any time; two threads must not
// set one at the same time.
#pragma once

#include <cstddef>

#include "base/atomic.h"

namespace loft::files {

// Called with text that ends with a NUL, which `bytes` leaves out.
using TextHandler = void (*)(const char* text, size_t bytes, void* closure);

class Handler {
 public:
  // nullptr: none.
  void set(TextHandler function, void* closure);
  bool is_set() const { return present().function != nullptr; }
  // False if there is none, or if the thread is in one: its own text goes elsewhere.
  bool call(const char* text, size_t bytes) const;

 private:
  struct Called {
    TextHandler function;
    void* with;
  };
  Called present() const;

  // The function and what it is called with belong together: `changes_` is odd while they change,
  // and another number afterwards. All sequentially consistent: text is no fast path, and the order
  // of the five is then the one that is written in handler.cc.
  Atomic<unsigned> changes_{0};
  Atomic<TextHandler> function_{nullptr};
  Atomic<void*> closure_{nullptr};
};

// Whether the calling thread is in one.
bool in_a_handler();

// Has all that loft writes to standard error passed to `function` in its place. nullptr: no more.
void set_message_handler(TextHandler function, void* closure);

}  // namespace loft::files
