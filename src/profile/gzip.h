// Output in the form of gzip, in blocks that are stored as they are. A profile is small, and its
// readers want the form, not the compression.
#pragma once

#include <cstddef>
#include <cstdint>

namespace loft::profile {

class Gzip {
 public:
  explicit Gzip(int file) : file_(file) {}

  void begin();
  void put(const void* bytes, size_t count);
  void put(char c) { put(&c, 1); }
  // Returns 0 or the first error of the system.
  int end();

 private:
  void flush(bool last);
  void write(const void* bytes, size_t count);

  int file_;
  int error_ = 0;
  uint32_t crc_ = ~uint32_t{0};
  uint32_t total_ = 0;
  size_t held_ = 0;
  uint8_t buffer_[8192];
};

}  // namespace loft::profile
