// Statistics as text: tables for people, one line of JSON, Prometheus exposition. Nothing here
// allocates: text goes out in pieces.
#pragma once

#include <cstddef>

#include "loft/loft.h"

namespace loft {

class Stats;

// Where text goes. Pieces end where a line does, unless a line is longer than a piece.
class Output {
 public:
  static Output to_file(int file) { return {false, file, nullptr, 0}; }
  // As snprintf: cut to size - 1 bytes and closed by a NUL.
  static Output to_memory(char* text, size_t size) { return {true, 0, text, size}; }

  [[gnu::format(printf, 2, 3)]] void print(const char* format, ...);
  void flush();

  size_t size() const { return size_; }  // of the whole text, flushed
  int error() const { return error_; }   // the first that writing met, or 0

 private:
  Output(bool in_memory, int file, char* text, size_t room)
      : in_memory_(in_memory), file_(file), text_(text), room_(room) {}
  void put(size_t bytes);

  static constexpr size_t kPiece = 2048;
  static constexpr size_t kLongestPrint = 512;
  bool in_memory_;
  int file_;
  char* text_;
  size_t room_;
  size_t size_ = 0;
  int error_ = 0;
  size_t used_ = 0;
  char piece_[kPiece];
};

// False for no format.
bool write_stats(Output& output, const Stats& stats, loft_stats_format_t format);

}  // namespace loft
