// The parser of HTTP requests: from the bytes that have arrived so far to a request, or to why
// there is none. It keeps nothing.
#pragma once

#include <cstddef>
#include <string_view>

namespace loft::inspect {

// Requests have a few hundred bytes, and so have bodies: lines of options.
inline constexpr size_t kLongestHead = 4096;
inline constexpr size_t kLongestBody = 4096;

// Views of the bytes that were read.
struct Request {
  bool posts = false;
  std::string_view path;
  std::string_view query;  // behind the first '?'
  std::string_view body;
};

// What becomes of the bytes: a status of HTTP, and why.
inline constexpr char kRead[] = "200 OK";
inline constexpr char kIncomplete[] = "400 the request is not whole";
inline constexpr char kNoRequest[] = "400 this is no request of HTTP/1.1";
inline constexpr char kChunked[] = "400 a body comes as it is, with Content-Length";
inline constexpr char kOtherMethod[] = "405 the methods are GET and POST";
inline constexpr char kTooLong[] = "413 a head has at most 4096 bytes, and so has a body";

// kRead: `bytes` begin with the request, and what follows it is not looked at. kIncomplete: more
// bytes may make one of it.
const char* read_request(std::string_view bytes, Request& request);

// The part of a text from `from` on, of at most `size` bytes. (string_view's own can throw.)
constexpr std::string_view part_of(std::string_view text, size_t from,
                                   size_t size = std::string_view::npos) {
  if (from > text.size()) from = text.size();
  const size_t left = text.size() - from;
  return {text.data() + from, size < left ? size : left};
}

// Takes a line off the beginning of a text.
constexpr std::string_view take_line(std::string_view& text, std::string_view end) {
  const size_t at = text.find(end);
  const std::string_view line = part_of(text, 0, at);
  text = at == text.npos ? std::string_view() : part_of(text, at + end.size());
  return line;
}

}  // namespace loft::inspect
