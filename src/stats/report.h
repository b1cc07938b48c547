// Statistics as text: tables for people, one line of JSON, Prometheus exposition. Nothing here
// allocates: text is written in pieces.
#pragma once

#include <cstddef>

#include "loft/loft.h"

namespace loft {

class Stats;

// The destination of text. A piece ends at the end of a line, unless the line is longer.
class Output {
 public:
  static Output to_file(int file) { return {false, file, nullptr, 0}; }
  // As snprintf: truncated to size - 1 bytes, with a closing NUL.
  static Output to_memory(char* text, size_t size) { return {true, 0, text, size}; }

  [[gnu::format(printf, 2, 3)]] void print(const char* format, ...);
  void flush();

  size_t size() const { return size_; }  // of the whole text, after flush
  int error() const { return error_; }   // of the first failed write, or 0

 private:
  Output(bool in_memory, int file, char* text, size_t capacity)
      : in_memory_(in_memory), file_(file), text_(text), capacity_(capacity) {}
  void put(size_t bytes);

  static constexpr size_t kPiece = 2048;
  static constexpr size_t kLongestPrint = 512;
  bool in_memory_;
  int file_;
  char* text_;
  size_t capacity_;
  size_t size_ = 0;
  int error_ = 0;
  size_t used_ = 0;
  char piece_[kPiece];
};

// False if `format` is unknown.
bool write_stats(Output& output, const Stats& stats, loft_stats_format_t format);

}  // namespace loft
