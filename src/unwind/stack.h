// Reads words of the caller's stack, whatever addresses it is asked for: each page that it enters
// is asked about once, by a system call. It does not ask about the page that the program runs on.
#pragma once

#include <cstdint>

namespace loft::unwind {

// Whether the system would read a word there. The call is one that every program with threads or
// signals makes (rt_sigprocmask), and it changes nothing: the action asked for does not exist, and
// the system finds that out after it has read the set.
bool is_readable(uintptr_t at);
// Whether the answers of `is_readable` mean that. Under some emulators they do not.
bool can_tell_readable();

class Stack {
 public:
  Stack() = default;  // of which nothing is known
  explicit Stack(uintptr_t stack_pointer);

  // False if nothing can be read there.
  bool read(uintptr_t at, uintptr_t* word) {
    if (at % sizeof(uintptr_t) != 0 || (at - low_ >= high_ - low_ && !enter(at))) return false;
    *word = load(at);
    return true;
  }

 private:
  // Words of other functions' frames, some of which a sanitizer has marked.
  __attribute__((no_sanitize("address", "thread"))) static uintptr_t load(uintptr_t at) {
    return *reinterpret_cast<const volatile uintptr_t*>(at);
  }
  bool enter(uintptr_t at);

  uintptr_t low_ = 0;  // pages that can be read: [low_, high_)
  uintptr_t high_ = 0;
};

}  // namespace loft::unwind
