// A line of text built in place, for reports that must not allocate. A longer line is truncated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace loft {

class Text {
 public:
  static constexpr size_t kCapacity = 512;

  Text& operator<<(const char* s) {
    while (*s != 0) put(*s++);
    return *this;
  }

  Text& operator<<(std::string_view part) {
    for (const char c : part) put(c);
    return *this;
  }

  Text& operator<<(uint64_t n) {
    char digits[20];
    size_t count = 0;
    do {
      digits[count++] = static_cast<char>('0' + n % 10);
      n /= 10;
    } while (n != 0);
    while (count != 0) put(digits[--count]);
    return *this;
  }

  Text& operator<<(const void* p) {
    if (about_ == nullptr) about_ = p;
    *this << "0x";
    const auto n = reinterpret_cast<uintptr_t>(p);
    bool started = false;
    for (int shift = 60; shift >= 0; shift -= 4) {
      const auto digit = static_cast<unsigned>(n >> shift) & 15;
      started = started || digit != 0 || shift == 0;
      if (started) put("0123456789abcdef"[digit]);
    }
    return *this;
  }

  // The address that a line of misuse is about: the first in it, unless another one is named.
  Text& about(const void* p) {
    about_ = p;
    return *this;
  }
  const void* what_about() const { return about_; }

  const char* data() const { return buffer_; }
  size_t size() const { return size_; }

 private:
  void put(char c) {
    if (size_ == kCapacity) return;
    buffer_[size_++] = c;
    buffer_[size_] = 0;
  }

  char buffer_[kCapacity + 1] = {};  // ends with a NUL
  size_t size_ = 0;
  const void* about_ = nullptr;
};

// Reading words of text: what options and the system's files have in common. Nothing here
// allocates.

// Reads a decimal number, which is all of `text`. False if it is none, or too large.
constexpr bool parse_number(std::string_view text, uint64_t& number) {
  if (text.empty()) return false;
  number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    if (__builtin_mul_overflow(number, 10u, &number)) return false;
    if (__builtin_add_overflow(number, static_cast<unsigned>(c - '0'), &number)) return false;
  }
  return true;
}

// The rest of `text` after `start`, or nullptr if `text` does not begin with it.
constexpr const char* after(const char* start, const char* text) {
  while (*start != 0 && *start == *text) ++start, ++text;
  return *start == 0 ? text : nullptr;
}

}  // namespace loft
