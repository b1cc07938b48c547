// What a fuzzer's input is read with: numbers and texts from front to back, zero behind the end.
#pragma once

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

namespace fuzz {

class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}

  bool empty() const { return at_ == end_; }
  uint8_t byte() { return empty() ? 0 : *at_++; }
  // Little-endian, so that seeds are easy to write.
  uint64_t number(unsigned bytes) {
    uint64_t n = 0;
    for (unsigned i = 0; i < bytes; ++i) n |= uint64_t{byte()} << 8 * i;
    return n;
  }
  // Up to `end`, which is skipped, or to the end of the input.
  std::string text(uint8_t end) {
    const uint8_t* stop = std::find(at_, end_, end);
    const std::string found(at_, stop);
    at_ = stop == end_ ? end_ : stop + 1;
    return found;
  }

 private:
  const uint8_t* at_;
  const uint8_t* end_;
};

// The fuzzer's finding: what was seen, and then its handler of SIGABRT, which keeps the input.
[[noreturn, gnu::format(printf, 1, 2)]] inline void wrong(const char* format, ...) {
  va_list values;
  va_start(values, format);
  fputs("fuzz: ", stderr);
  vfprintf(stderr, format, values);
  fputc('\n', stderr);
  abort();
}

}  // namespace fuzz
