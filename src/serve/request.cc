#include "serve/request.h"

#include "base/words.h"

namespace loft::serve {

namespace {

constexpr std::string_view kLineEnd = "\r\n";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_token(char c) {
  return is_digit(c) || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool is_token(std::string_view text) {
  for (const char c : text) {
    if (!is_token(c)) return false;
  }
  return !text.empty();
}

bool is_visible(std::string_view text) {
  for (const char c : text) {
    if (c <= ' ' || c > '~') return false;
  }
  return true;
}

// What may stand in the value of a field. Bytes above ASCII may, and mean nothing here.
bool is_value(std::string_view text) {
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) < ' ' && c != '\t') || c == 0x7f) return false;
  }
  return true;
}

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_space(text.front())) text = part_of(text, 1);
  while (!text.empty() && is_space(text.back())) text = part_of(text, 0, text.size() - 1);
  return text;
}

bool is_name(std::string_view name, std::string_view in_small_letters) {
  if (name.size() != in_small_letters.size()) return false;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i] >= 'A' && name[i] <= 'Z' ? static_cast<char>(name[i] + 32) : name[i];
    if (c != in_small_letters[i]) return false;
  }
  return true;
}

// "HTTP/1.1"; of another version, kVersion.
Status read_version(std::string_view text) {
  if (text == "HTTP/1.1" || text == "HTTP/1.0") return kOk;
  const bool is_one = text.size() == 8 && part_of(text, 0, 5) == "HTTP/" && is_digit(text[5]) &&
                      text[6] == '.' && is_digit(text[7]);
  return is_one ? kVersion : kBadRequest;
}

// "METHOD TARGET VERSION"
Status read_first_line(std::string_view line, Request& request) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == line.npos || first == last) return kBadRequest;
  const std::string_view method = part_of(line, 0, first);
  const std::string_view target = part_of(line, first + 1, last - first - 1);
  if (!is_token(method) || target.empty() || target[0] != '/' || !is_visible(target)) {
    return kBadRequest;
  }
  const Status version = read_version(part_of(line, last + 1));
  if (version != kOk) return version;
  const size_t mark = target.find('?');
  request.path = part_of(target, 0, mark);
  request.query = mark == target.npos ? std::string_view() : part_of(target, mark + 1);
  if (method == "GET") {
    request.method = Method::kGet;
  } else if (method == "HEAD") {
    request.method = Method::kHead;
  } else if (method == "POST") {
    request.method = Method::kPost;
  } else {
    return kNotAllowed;
  }
  return kOk;
}

// What the fields say that matters here.
struct Fields {
  unsigned count = 0;
  unsigned hosts = 0;
  bool has_length = false;
  uint64_t length = 0;
};

// "NAME: VALUE"
Status read_field(std::string_view line, Fields& fields) {
  if (++fields.count > kMostFields) return kHeadTooLong;
  const size_t colon = line.find(':');
  if (colon == line.npos) return kBadRequest;
  const std::string_view name = part_of(line, 0, colon);
  const std::string_view value = trimmed(part_of(line, colon + 1));
  if (!is_token(name) || !is_value(value)) return kBadRequest;
  if (is_name(name, "host")) return ++fields.hosts > 1 ? kBadRequest : kOk;
  if (is_name(name, "transfer-encoding")) return kNotImplemented;
  if (is_name(name, "expect")) return kExpectation;
  if (!is_name(name, "content-length")) return kOk;
  if (fields.has_length || !parse_number(value, fields.length)) return kBadRequest;
  fields.has_length = true;
  return kOk;
}

}  // namespace

Status read_request(std::string_view bytes, Request& request) {
  const size_t head = bytes.find("\r\n\r\n");
  if (head > kLongestHead - 4) {  // also where there is none
    return bytes.size() >= kLongestHead ? kHeadTooLong : kIncomplete;
  }
  std::string_view left = part_of(bytes, 0, head);
  const auto next_line = [&left] {
    const size_t end = left.find(kLineEnd);
    const std::string_view line = part_of(left, 0, end);
    left = end == left.npos ? std::string_view() : part_of(left, end + kLineEnd.size());
    return line;
  };
  const std::string_view first = next_line();
  Status status = read_first_line(first, request);
  Fields fields;
  while (status == kOk && !left.empty()) status = read_field(next_line(), fields);
  if (status != kOk) return status;
  // Of version 1.0 none is required.
  if (fields.hosts == 0 && first.back() == '1') return kBadRequest;
  if (fields.length > kLongestBody) return kBodyTooLong;
  const std::string_view behind = part_of(bytes, head + 4);
  if (behind.size() < fields.length) return kIncomplete;
  request.body = part_of(behind, 0, fields.length);
  return kOk;
}

bool read_parameter(std::string_view query, std::string_view name, uint64_t& number) {
  if (query.empty()) return true;
  const size_t equals = query.find('=');
  if (name.empty() || equals == query.npos || part_of(query, 0, equals) != name) return false;
  return parse_number(part_of(query, equals + 1), number);
}

}  // namespace loft::serve
