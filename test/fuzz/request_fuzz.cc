// The parser of requests, against a plain second one; and what it says of the first bytes of a
// request while the others have not arrived.
#include "inspect/request.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bytes.h"

namespace {

using namespace loft::inspect;

using Status = std::string;

struct Plain {
  Status status;
  std::string method, path, query, body;
};

std::vector<std::string> split(const std::string& text, const std::string& by) {
  std::vector<std::string> parts;
  size_t from = 0;
  for (size_t at = text.find(by); at != text.npos; at = text.find(by, from)) {
    parts.push_back(text.substr(from, at - from));
    from = at + by.size();
  }
  parts.push_back(text.substr(from));
  return parts;
}

bool consists_of(const std::string& text, const std::string& characters) {
  return !text.empty() && text.find_first_not_of(characters) == text.npos;
}

const std::string kDigits = "0123456789";

bool is_plain(const std::string& line) {
  for (const char c : line) {
    if ((c >= 0 && c < ' ' && c != '\t') || c == 127) return false;
  }
  return true;
}

Status plain_first_line(const std::string& line, Plain& plain) {
  const std::vector<std::string> words = split(line, " ");
  if (words.size() != 3 || words[0].empty() || !is_plain(line)) return kNoRequest;
  const std::string& target = words[1];
  if (target.empty() || target[0] != '/') return kNoRequest;
  if (words[2] != "HTTP/1.0" && words[2] != "HTTP/1.1") return kNoRequest;
  const size_t mark = std::min(target.find('?'), target.size());
  plain.path = target.substr(0, mark);
  plain.query = target.substr(std::min(mark + 1, target.size()));
  plain.method = words[0];
  return plain.method == "GET" || plain.method == "POST" ? kRead : kOtherMethod;
}

Plain plain_request(const std::string& bytes) {
  Plain plain = {kIncomplete, "", "", "", ""};
  const size_t end = bytes.find("\r\n\r\n");
  if (end == bytes.npos || end + 4 > kLongestHead) {
    if (bytes.size() >= kLongestHead) plain.status = kTooLong;
    return plain;
  }
  std::vector<std::string> lines = split(bytes.substr(0, end), "\r\n");
  plain.status = plain_first_line(lines.front(), plain);
  if (plain.status != kRead) return plain;
  lines.erase(lines.begin());
  plain.status = kNoRequest;
  std::vector<std::string> lengths;
  for (const std::string& line : lines) {
    const size_t colon = line.find(':');
    if (colon == line.npos || colon == 0 || !is_plain(line)) return plain;
    std::string name = line.substr(0, colon);
    std::string value = line.substr(colon + 1);
    if (name.find_first_of(" \t") != name.npos) return plain;
    for (char& c : name) c = static_cast<char>(tolower(c));
    const size_t begin = std::min(value.find_first_not_of(" \t"), value.size());
    value = value.substr(begin, value.find_last_not_of(" \t") + 1 - begin);
    if (name == "transfer-encoding") {
      plain.status = kChunked;
      return plain;
    }
    if (name == "content-length") {
      lengths.push_back(value);
      if (lengths.size() > 1 || !consists_of(value, kDigits)) return plain;
      const size_t zeros = std::min(value.find_first_not_of('0'), value.size());
      lengths[0] =
          std::string(20 - std::min<size_t>(value.size() - zeros, 20), '0') + value.substr(zeros);
      if (lengths[0].size() > 20 || lengths[0] > "18446744073709551615") return plain;
    }
  }
  const uint64_t length = lengths.empty() ? 0 : std::stoull(lengths[0]);
  plain.status = length > kLongestBody             ? kTooLong
                 : bytes.size() - end - 4 < length ? kIncomplete
                                                   : kRead;
  if (plain.status == kRead) plain.body = bytes.substr(end + 4, length);
  return plain;
}

// Exactly as many bytes as there are, so that the sanitizer sees one more that is read.
Status status_of(const uint8_t* data, size_t size, Request& request,
                 std::unique_ptr<char[]>& copy) {
  copy = std::make_unique<char[]>(size);
  std::copy(data, data + size, copy.get());
  return read_request({copy.get(), size}, request);
}

}  // namespace

// The bytes of a request, as they are.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Request request;
  std::unique_ptr<char[]> copy;
  const Status status = status_of(data, size, request, copy);
  const Plain plain = plain_request(std::string(data, data + size));
  if (status != plain.status) fuzz::wrong("%s and not %s", status.c_str(), plain.status.c_str());
  if (status == kRead || status == kOtherMethod) {
    if (request.path != plain.path || request.query != plain.query) fuzz::wrong("another target");
  }
  if (status == kRead &&
      (request.posts != (plain.method == "POST") || request.body != plain.body)) {
    fuzz::wrong("another request");
  }
  for (size_t part = 0; part < size; part += 1 + part / 64) {
    Request early;
    const Status first = status_of(data, part, early, copy);
    if (first != kIncomplete && first != status) {
      fuzz::wrong("after %zu bytes %s and then %s", part, first.c_str(), status.c_str());
    }
    if (first == kRead &&
        (early.path.size() != request.path.size() || early.body.size() != request.body.size())) {
      fuzz::wrong("after %zu bytes another request", part);
    }
  }
  return 0;
}
