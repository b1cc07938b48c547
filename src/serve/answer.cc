#include "serve/answer.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "serve/place.h"

namespace loft::serve {

namespace {

constexpr const char* kPlainText = "text/plain; charset=utf-8";

const char* reason(Status status) {
  switch (status) {
    case kOk:
      return "OK";
    case kBadRequest:
      return "Bad Request";
    case kForbidden:
      return "Forbidden";
    case kNotFound:
      return "Not Found";
    case kNotAllowed:
      return "Method Not Allowed";
    case kTimedOut:
      return "Request Timeout";
    case kBodyTooLong:
      return "Content Too Large";
    case kExpectation:
      return "Expectation Failed";
    case kHeadTooLong:
      return "Request Header Fields Too Large";
    case kNotImplemented:
      return "Not Implemented";
    case kUnavailable:
      return "Service Unavailable";
    case kVersion:
      return "HTTP Version Not Supported";
    case kIncomplete:
    case kLater:
      break;
  }
  return "Internal Server Error";
}

// Bytes sent; 0 if the peer takes none now; -1 if it is gone.
ssize_t send_some(int peer, const char* from, size_t bytes) {
  ssize_t sent = 0;
  do {
    sent = send(peer, from, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS)) return 0;
  return sent;
}

}  // namespace

void Answer::write_head(Status status, const char* type, uint64_t length, const char* allowed) {
  Text head;
  head << "HTTP/1.1 " << uint64_t{status} << " " << reason(status) << "\r\nContent-Type: " << type
       << "\r\nContent-Length: " << length << "\r\nCache-Control: no-store\r\nConnection: close";
  if (allowed != nullptr) head << "\r\nAllow: " << allowed;
  head << "\r\n\r\n";
  __builtin_memcpy(text_, head.data(), head.size());
  size_ = head_ = head.size();
}

void Answer::append_line(const Text& text) {
  __builtin_memcpy(text_ + size_, text.data(), text.size());
  size_ += text.size();
  text_[size_++] = '\n';
}

void Answer::say(Status status, const Text& text) {
  clear();
  write_head(status, kPlainText, text.size() + 1);
  append_line(text);
}

void Answer::refuse_method(const char* allowed) {
  clear();
  const Text text = Text() << "this address takes " << allowed;
  write_head(kNotAllowed, kPlainText, text.size() + 1, allowed);
  append_line(text);
}

int Answer::begin_file() {
  clear();
  // A system may give no file that can be made executable. Older ones do not know the flag.
  constexpr unsigned kNeverExecuted = 8;  // MFD_NOEXEC_SEAL
  int file = memfd_create("loft", MFD_CLOEXEC | kNeverExecuted);
  if (file < 0) file = memfd_create("loft", MFD_CLOEXEC);
  file_ = above_standard(file);
  if (file_ < 0) {
    say(kUnavailable, Text() << "the system gives no file for the answer: error "
                             << uint64_t{static_cast<unsigned>(errno)});
  }
  return file_;
}

void Answer::end_file(const char* type, int error) {
  struct stat written;
  if (error == 0 && fstat(file_, &written) != 0) error = errno;
  if (error != 0) {
    return say(kUnavailable, Text() << "the answer could not be written: error "
                                    << uint64_t{static_cast<unsigned>(error)});
  }
  length_ = static_cast<uint64_t>(written.st_size);
  write_head(kOk, type, length_);
}

void Answer::leave_body_off() {
  size_ = head_;
  at_ = length_;
}

// One piece of the file a call: others want to be served, too.
bool Answer::send_to(int peer) {
  if (sent_ < size_) {
    const ssize_t sent = send_some(peer, text_ + sent_, size_ - sent_);
    if (sent < 0) return false;
    sent_ += static_cast<size_t>(sent);
    if (sent_ < size_) return true;
  }
  if (at_ == length_) return true;
  char piece[kPiece];
  const size_t wanted = least<uint64_t>(length_ - at_, sizeof(piece));
  const ssize_t got = pread(file_, piece, wanted, static_cast<off_t>(at_));
  if (got <= 0) return false;
  const ssize_t sent = send_some(peer, piece, static_cast<size_t>(got));
  if (sent < 0) return false;
  at_ += static_cast<uint64_t>(sent);
  return true;
}

void Answer::clear() {
  if (file_ >= 0) close(file_);
  file_ = -1;
  size_ = head_ = sent_ = 0;
  length_ = at_ = 0;
}

}  // namespace loft::serve
