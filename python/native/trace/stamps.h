// What a replay stamps its objects with, so that it sees who writes into another one's: the first
// word and the last one, and of what is longer one word of each page, or all. What is left behind
// the last whole word has none; what is shorter than a word is one.
#ifndef LOFT_TRACE_STAMPS_H_
#define LOFT_TRACE_STAMPS_H_

#include <stdint.h>
#include <string.h>

namespace trace {

enum class Touch { kEnds, kPages, kAll };

class Stamps {
 public:
  explicit Stamps(Touch touch)
      : stride_(touch == Touch::kAll     ? 1
                : touch == Touch::kPages ? 4096 / sizeof(uint64_t)
                                         : UINT64_MAX / 4) {}

  static uint64_t of(uint64_t place) { return (place + 1) * 0x9e3779b97f4a7c15; }

  // From `kept` words on: those before have theirs, since an object keeps its stamp when it moves.
  void write(void* p, uint64_t kept, uint64_t size, uint64_t stamp) const {
    const uint64_t words = size / sizeof(stamp);
    if (words == 0) {
      memcpy(p, &stamp, size);
      return;
    }
    auto* word = static_cast<uint64_t*>(p);
    word[0] = stamp;
    word[words - 1] = stamp;
    // Most are shorter.
    if (__builtin_expect(words > stride_, 0)) write_between(word, kept, words, stamp);
  }

  static bool are_ends(const void* p, uint64_t size, uint64_t stamp) {
    const uint64_t words = size / sizeof(stamp);
    if (words == 0) return memcmp(p, &stamp, size) == 0;
    const auto* word = static_cast<const uint64_t*>(p);
    return word[0] == stamp && word[words - 1] == stamp;
  }

  bool are_whole(const void* p, uint64_t size, uint64_t stamp) const {
    if (!are_ends(p, size, stamp)) return false;
    const uint64_t words = size / sizeof(stamp);
    return __builtin_expect(words <= stride_, 1) ||
           are_between(static_cast<const uint64_t*>(p), words, stamp);
  }

  // Of an object that is to be zero. A page that nobody has written yet is written at once: looking
  // first would cost two faults.
  bool replace_zeros(void* p, uint64_t size, uint64_t stamp) const {
    const uint64_t words = size / sizeof(stamp);
    auto* word = static_cast<uint64_t*>(p);
    uint64_t seen = 0;
    // Relaxed: the object is this thread's alone.
    const auto swap = [&](uint64_t i) {
      seen |= __atomic_exchange_n(word + i, stamp, __ATOMIC_RELAXED);
    };
    if (words == 0) {
      memcpy(&seen, p, size);
      memcpy(p, &stamp, size);
      return seen == 0;
    }
    for (uint64_t i = 0; i + 1 < words; i += stride_) swap(i);
    swap(words - 1);
    return seen == 0;
  }

 private:
  [[gnu::noinline]] void write_between(uint64_t* word, uint64_t kept, uint64_t words,
                                       uint64_t stamp) const {
    uint64_t i = kept == 0 ? stride_ : (kept + stride_ - 1) / stride_ * stride_;
    for (; i < words; i += stride_) word[i] = stamp;
  }

  [[gnu::noinline]] bool are_between(const uint64_t* word, uint64_t words, uint64_t stamp) const {
    for (uint64_t i = stride_; i < words; i += stride_) {
      if (word[i] != stamp) return false;
    }
    return true;
  }

  uint64_t stride_;  // in words
};

}  // namespace trace

#endif  // LOFT_TRACE_STAMPS_H_
