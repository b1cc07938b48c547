#include "inspect/request.h"

#include "base/text.h"

namespace loft::inspect {

namespace {

// Bytes above ASCII may stand in fields, and mean nothing here.
bool is_text(std::string_view line) {
  for (const char c : line) {
    if ((static_cast<unsigned char>(c) < ' ' && c != '\t') || c == 0x7f) return false;
  }
  return true;
}

bool is_name(std::string_view name, std::string_view in_small_letters) {
  if (name.size() != in_small_letters.size()) return false;
  for (size_t i = 0; i < name.size(); ++i) {
    if ((name[i] | 0x20) != in_small_letters[i]) return false;
  }
  return true;
}

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// "METHOD TARGET VERSION"
const char* read_first_line(std::string_view line, Request& request) {
  const std::string_view method = take_line(line, " ");
  std::string_view target = take_line(line, " ");
  if (line != "HTTP/1.1" && line != "HTTP/1.0") return kNoRequest;
  if (method.empty() || target.empty() || target.front() != '/') return kNoRequest;
  request.path = take_line(target, "?");
  request.query = target;
  request.posts = method == "POST";
  return request.posts || method == "GET" ? kRead : kOtherMethod;
}

}  // namespace

const char* read_request(std::string_view bytes, Request& request) {
  const size_t head = bytes.find("\r\n\r\n");
  if (head > kLongestHead - 4) {  // also where there is none
    return bytes.size() >= kLongestHead ? kTooLong : kIncomplete;
  }
  std::string_view left = part_of(bytes, 0, head);
  std::string_view line = take_line(left, "\r\n");
  const char* const first = is_text(line) ? read_first_line(line, request) : kNoRequest;
  if (first != kRead) return first;
  bool has_length = false;
  uint64_t length = 0;
  while (!left.empty()) {
    line = take_line(left, "\r\n");
    // Neither a line without a name nor one that goes on with the last one: it begins with a space.
    const size_t colon = line.find(':');
    const std::string_view name = part_of(line, 0, colon);
    if (colon == line.npos || name.empty() || !is_text(line)) return kNoRequest;
    if (name.find(' ') != name.npos || name.find('\t') != name.npos) return kNoRequest;
    if (is_name(name, "transfer-encoding")) return kChunked;
    if (!is_name(name, "content-length")) continue;
    if (has_length || !parse_number(trimmed(part_of(line, colon + 1)), length)) return kNoRequest;
    has_length = true;
  }
  if (length > kLongestBody) return kTooLong;
  request.body = part_of(bytes, head + 4, length);
  return request.body.size() < length ? kIncomplete : kRead;
}

}  // namespace loft::inspect
