#include "profile/gzip.h"

#include "base/bits.h"
#include "os/os.h"

namespace loft::profile {

namespace {

struct CrcTable {
  uint32_t of[256];
  constexpr CrcTable() : of{} {
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) {
        value = (value & 1) != 0 ? value >> 1 ^ 0xEDB88320u : value >> 1;
      }
      of[i] = value;
    }
  }
};
constexpr CrcTable crc_table;

void put_word(uint8_t* to, uint32_t word, unsigned bytes) {
  for (unsigned i = 0; i < bytes; ++i) to[i] = static_cast<uint8_t>(word >> 8 * i);
}

}  // namespace

void Gzip::write(const void* bytes, size_t count) {
  if (error_ == 0) error_ = os::write_all(file_, static_cast<const char*>(bytes), count);
}

void Gzip::begin() {
  static constexpr uint8_t kHeader[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255};
  write(kHeader, sizeof(kHeader));
}

void Gzip::flush(bool last) {
  uint8_t header[5] = {last};
  put_word(header + 1, static_cast<uint32_t>(held_), 2);
  put_word(header + 3, ~static_cast<uint32_t>(held_), 2);
  write(header, sizeof(header));
  write(buffer_, held_);
  held_ = 0;
}

void Gzip::put(const void* bytes, size_t count) {
  const auto* from = static_cast<const uint8_t*>(bytes);
  total_ += static_cast<uint32_t>(count);
  while (count != 0) {
    if (held_ == sizeof(buffer_)) flush(false);
    const size_t part = least(count, sizeof(buffer_) - held_);
    for (size_t i = 0; i < part; ++i) {
      crc_ = crc_ >> 8 ^ crc_table.of[(crc_ ^ from[i]) & 255];
      buffer_[held_++] = from[i];
    }
    from += part;
    count -= part;
  }
}

int Gzip::end() {
  flush(true);
  uint8_t trailer[8];
  put_word(trailer, ~crc_, 4);
  put_word(trailer + 4, total_, 4);
  write(trailer, sizeof(trailer));
  return error_;
}

}  // namespace loft::profile
