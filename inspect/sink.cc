#include "inspect/sink.h"

#include <errno.h>

#include "base/raw_file.h"

namespace loft::inspect {

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

Sink::Sink(int file, bool as_gzip) : file_(file), as_gzip_(as_gzip) {
  static constexpr uint8_t kHeader[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255};
  if (as_gzip) write(kHeader, sizeof(kHeader));
}

void Sink::write(const void* bytes, size_t count) {
  const auto* from = static_cast<const char*>(bytes);
  while (error_ == 0 && count != 0) {
    const long written = raw::write_file(file_, from, count);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      error_ = written < 0 ? errno : EIO;
      return;
    }
    from += written;
    count -= static_cast<size_t>(written);
  }
}

void Sink::flush(bool last) {
  uint8_t header[5] = {last};
  put_word(header + 1, static_cast<uint32_t>(held_), 2);
  put_word(header + 3, ~static_cast<uint32_t>(held_), 2);
  if (as_gzip_) write(header, sizeof(header));
  write(buffer_, held_);
  held_ = 0;
}

void Sink::put(const void* bytes, size_t count) {
  const auto* from = static_cast<const uint8_t*>(bytes);
  total_ += static_cast<uint32_t>(count);
  for (const uint8_t* const end = from + count; from != end; ++from) {
    if (held_ == sizeof(buffer_)) flush(false);
    crc_ = crc_ >> 8 ^ crc_table.of[(crc_ ^ *from) & 255];
    buffer_[held_++] = *from;
  }
}

int Sink::end() {
  flush(true);
  uint8_t trailer[8];
  put_word(trailer, ~crc_, 4);
  put_word(trailer + 4, total_, 4);
  if (as_gzip_) write(trailer, sizeof(trailer));
  return error_;
}

}  // namespace loft::inspect
