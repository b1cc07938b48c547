// Reads the bytes of call frame information from front to back, never past their end. After the
// first failure every further number is zero and nothing is left.
#pragma once

#include <cstddef>
#include <cstdint>

namespace loft::unwind {

// Bytes that may be read.
struct Section {
  const uint8_t* begin = nullptr;
  const uint8_t* end = nullptr;

  size_t bytes() const { return static_cast<size_t>(end - begin); }
  bool holds(uintptr_t at) const {
    return at - reinterpret_cast<uintptr_t>(begin) < bytes();  // wraps below the beginning
  }
};

class Bytes {
 public:
  Bytes() = default;
  explicit Bytes(Section section) : at_(section.begin), end_(section.end) {}
  Bytes(const uint8_t* at, const uint8_t* end) : at_(at), end_(end) {}

  const uint8_t* at() const { return at_; }
  const uint8_t* end() const { return end_; }
  bool empty() const { return at_ == end_; }
  bool failed() const { return failed_; }
  void fail() {
    at_ = end_;
    failed_ = true;
  }

  // A number of fixed length, of the machine's own order.
  template <class T>
  T fixed() {
    T number{};
    if (static_cast<size_t>(end_ - at_) < sizeof(T)) {
      fail();
      return number;
    }
    __builtin_memcpy(&number, at_, sizeof(T));
    at_ += sizeof(T);
    return number;
  }
  uint8_t byte() { return fixed<uint8_t>(); }

  // Numbers of seven bits a byte (LEB128). Bits beyond the 64th are dropped.
  uint64_t number() {
    unsigned bits = 0;
    return groups(&bits);
  }
  int64_t signed_number() {
    unsigned bits = 0;
    uint64_t value = groups(&bits);
    if (bits < 64 && (value >> (bits - 1) & 1) != 0) value |= ~uint64_t{0} << bits;
    return static_cast<int64_t>(value);
  }

  void skip(uint64_t bytes) {
    if (bytes > static_cast<size_t>(end_ - at_)) return fail();
    at_ += bytes;
  }
  // The next bytes by themselves. They are skipped here.
  Bytes part(uint64_t bytes) {
    const uint8_t* const from = at_;
    skip(bytes);
    return failed_ ? Bytes(end_, end_) : Bytes(from, at_);
  }

  // An address in one of the forms that linkers write: of what width it is (the low four bits), and
  // what it counts from (the next three): zero or its own place. The highest bit says that the
  // address is kept elsewhere; this returns the place.
  uintptr_t address(uint8_t form) {
    const auto here = reinterpret_cast<uintptr_t>(at_);
    const uintptr_t value = width(form & 0x0f);
    switch (form & 0x70) {
      case 0x00:
        return value;
      case 0x10:
        return here + value;
      default:
        fail();
        return 0;
    }
  }

 private:
  uint64_t groups(unsigned* bits) {
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t group = 0;
    do {
      if (at_ == end_) {
        fail();
        group = 0;
      } else {
        group = *at_++;
      }
      if (shift < 64) {
        value |= uint64_t{group & 0x7fu} << shift;
        shift += 7;
      }
    } while ((group & 0x80) != 0);
    *bits = shift;
    return value;
  }

  uintptr_t width(unsigned form) {
    switch (form) {
      case 0x0:
        return fixed<uintptr_t>();
      case 0x1:
        return number();
      case 0x2:
        return fixed<uint16_t>();
      case 0x3:
        return fixed<uint32_t>();
      case 0x4:
        return fixed<uint64_t>();
      case 0x9:
        return static_cast<uintptr_t>(signed_number());
      case 0xa:
        return static_cast<uintptr_t>(intptr_t{fixed<int16_t>()});
      case 0xb:
        return static_cast<uintptr_t>(intptr_t{fixed<int32_t>()});
      case 0xc:
        return static_cast<uintptr_t>(fixed<int64_t>());
      default:
        fail();
        return 0;
    }
  }

  const uint8_t* at_ = nullptr;
  const uint8_t* end_ = nullptr;
  bool failed_ = false;
};

}  // namespace loft::unwind
