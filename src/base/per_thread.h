// Variables of each thread: 40 bytes in all. A header declares one, and a source defines it.
//
// As a rule they are thread-local storage: an access takes an instruction or two. Under macOS the
// first access of a thread to that storage allocates it through malloc, and malloc is what asks. So
// they lie there in a record of the thread's own, which a key of POSIX leads to
// (base/darwin_per_thread.cc). `word` is the variable's first word in that record, and a word of
// zeros reads as the initial value.
#pragma once

#include "base/macros.h"

#if defined(__MACH__)

namespace loft {

inline constexpr unsigned kThreadWords = 8;

// The calling thread's record. Without memory for it: one that such threads share.
void** thread_words();

template <class T, unsigned kWord, T kInitial>
class PerThread {
  static_assert(sizeof(T) <= sizeof(void*) && kWord < kThreadWords);

 public:
  operator T() const {
    const T value = place();
    return value == T{} ? kInitial : value;
  }
  const PerThread& operator=(T value) const {
    place() = value;
    return *this;
  }

 private:
  static T& place() { return *reinterpret_cast<T*>(thread_words() + kWord); }
};

// Of more than a word, which are zero at first.
template <class T, unsigned kWord>
class PerThreadRecord {
  static_assert(kWord + sizeof(T) / sizeof(void*) <= kThreadWords);

 public:
  operator T&() const { return *reinterpret_cast<T*>(thread_words() + kWord); }
};

}  // namespace loft

#define LOFT_DECLARE_PER_THREAD(type, name, word, initial) \
  inline constexpr ::loft::PerThread<type, word, initial> name {}
#define LOFT_DEFINE_PER_THREAD(type, name, initial) static_assert(true)
#define LOFT_DECLARE_PER_THREAD_RECORD(type, name, word) \
  inline constexpr ::loft::PerThreadRecord<type, word> name {}
#define LOFT_DEFINE_PER_THREAD_RECORD(type, name) static_assert(true)

#else

#define LOFT_DECLARE_PER_THREAD(type, name, word, initial) \
  extern LOFT_HIDDEN LOFT_TLS __thread type name
#define LOFT_DEFINE_PER_THREAD(type, name, initial) constinit LOFT_TLS __thread type name = initial
#define LOFT_DECLARE_PER_THREAD_RECORD(type, name, word) \
  extern LOFT_HIDDEN LOFT_TLS __thread type name
#define LOFT_DEFINE_PER_THREAD_RECORD(type, name) \
  constinit LOFT_TLS __thread type name {}

#endif
