// The parser of HTTP requests: from the bytes that have arrived so far to a request, or to the
// status of the answer that refuses them. It is strict: what RFC 9112 lets a server guess is
// refused. It keeps nothing and allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace loft::serve {

// Requests have a few hundred bytes, and so have bodies: lines of options.
inline constexpr size_t kLongestHead = 4096;
inline constexpr size_t kLongestBody = 4096;
inline constexpr unsigned kMostFields = 32;

enum class Method : uint8_t { kGet, kHead, kPost };

// What becomes of the bytes. All but the first two are statuses of HTTP.
enum Status : unsigned {
  kIncomplete = 0,  // more bytes may make a request of it
  kLater = 1,       // the answer is written at a later time
  kOk = 200,
  kBadRequest = 400,
  kForbidden = 403,
  kNotFound = 404,
  kNotAllowed = 405,
  kTimedOut = 408,
  kBodyTooLong = 413,
  kExpectation = 417,
  kHeadTooLong = 431,
  kNotImplemented = 501,
  kUnavailable = 503,
  kVersion = 505,
};

// Views of the bytes that were read.
struct Request {
  Method method = Method::kGet;
  std::string_view path;
  std::string_view query;  // behind the first '?'
  std::string_view body;
};

// kOk: `bytes` begin with the request. Whatever follows it is not looked at.
Status read_request(std::string_view bytes, Request& request);

// The parameter `name`, a number: the only one that the query may have. False if the query is
// anything else. `number` stays as it is without the parameter.
bool read_parameter(std::string_view query, std::string_view name, uint64_t& number);

// The part of a text from `from` on, of at most `size` bytes. (string_view's own can throw.)
constexpr std::string_view part_of(std::string_view text, size_t from, size_t size = SIZE_MAX) {
  if (from > text.size()) from = text.size();
  const size_t left = text.size() - from;
  return {text.data() + from, size < left ? size : left};
}

}  // namespace loft::serve
