// An answer: a head, with a short text in it, or a file of the system's memory behind it. Whatever
// is long is written into that file first, as a whole: so its length is known, what it is written
// from is not held while a slow reader reads, and its writers need not know of sockets.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/text.h"
#include "serve/request.h"

namespace loft::serve {

class Answer {
 public:
  // A line of text.
  void say(Status status, const char* text) { say(status, Text() << text); }
  void say(Status status, const Text& text);
  // The answer to a method that the address does not have. `allowed` are those that it has.
  void refuse_method(const char* allowed);

  // An empty file of the system's memory, to be written into. -1 if there is none: a line says so.
  int begin_file();
  // Ends what was begun. An error of the writer's becomes a line.
  void end_file(const char* type, int error);

  // Whether the text behind the head is left off, as for HEAD.
  void leave_body_off();

  // Sends as much as the peer takes without waiting. False if it is gone.
  bool send_to(int peer);
  bool is_sent() const { return sent_ == size_ && at_ == length_; }

  void clear();

 private:
  void write_head(Status status, const char* type, uint64_t length, const char* allowed = nullptr);
  void append_line(const Text& text);

  static constexpr size_t kPiece = size_t{16} << 10;
  char text_[2 * Text::kCapacity + 1];
  size_t size_ = 0;
  size_t head_ = 0;  // of these, in the head
  size_t sent_ = 0;
  int file_ = -1;
  uint64_t length_ = 0;  // of the file
  uint64_t at_ = 0;
};

}  // namespace loft::serve
