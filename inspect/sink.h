// What a profile is written into: a file, as it is or in the form of gzip. That is in blocks that
// are stored: a profile is small, and its readers want the form, not the compression.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace loft::inspect {

// Too long for a stack.
class Sink {
 public:
  Sink(int file, bool as_gzip);

  void put(const void* bytes, size_t count);
  // Returns 0 or the first error of the system.
  int end();

 private:
  void flush(bool last);
  void write(const void* bytes, size_t count);

  int file_;
  bool as_gzip_;
  int error_ = 0;
  uint32_t crc_ = ~uint32_t{0};
  uint32_t total_ = 0;
  size_t held_ = 0;
  uint8_t buffer_[8192];
};

}  // namespace loft::inspect
