// Memory that may not be there, and memory for the time of a call.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <new>

namespace loft::inspect {

// Whether a word can be read. The system call is one that every program with threads or signals
// makes, and it changes nothing: the action asked for does not exist, and the system finds that out
// after it has read the set.
bool is_readable(uintptr_t at);
// Copies up to a page, if that says so for its words. It may be gone a moment later.
bool copy_if_readable(void* to, uintptr_t from, size_t bytes);

// Copies memory of this process that may not be there any more: [from, from + bytes), or as much
// of its beginning as is mapped and readable. Returns how much; 0 also where the system refuses.
size_t copy_if_there(void* to, uintptr_t from, size_t bytes);

// Readable and writable memory for the time of a call, zeroed; nullptr without memory.
void* borrow(size_t bytes);
void give_back(void* memory, size_t bytes);

// What is too long for a stack, which may be a fiber's or a signal's.
template <class T>
class Borrowed {
 public:
  template <class... Arguments>
  explicit Borrowed(Arguments... arguments) : at_(borrow(sizeof(T))) {
    if (at_ != nullptr) new (at_) T(arguments...);
  }
  ~Borrowed() {
    if (at_ == nullptr) return;
    (*this)->~T();
    give_back(at_, sizeof(T));
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

  bool is_there() const { return at_ != nullptr; }
  T& operator*() const { return *static_cast<T*>(at_); }
  T* operator->() const { return static_cast<T*>(at_); }

 private:
  void* at_;
};

}  // namespace loft::inspect
