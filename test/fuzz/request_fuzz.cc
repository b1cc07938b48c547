// The parser of requests, against a plain second one; and what it says of the first bytes of a
// request while the others have not arrived.
#include "serve/request.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bytes.h"

namespace {

using namespace loft::serve;

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
const std::string kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
const std::string kToken = kDigits + kLetters + "!#$%&'*+-.^_`|~";

Status plain_first_line(const std::string& line, Plain& plain) {
  const std::vector<std::string> words = split(line, " ");
  if (words.size() != 3 || !consists_of(words[0], kToken)) return kBadRequest;
  const std::string& target = words[1];
  if (target.empty() || target[0] != '/') return kBadRequest;
  for (const char c : target) {
    if (c < 0x21 || c > 0x7e) return kBadRequest;
  }
  const std::string& version = words[2];
  if (version.size() != 8 || version.compare(0, 5, "HTTP/") != 0 || version[6] != '.' ||
      !consists_of(version.substr(5, 1) + version.substr(7), kDigits)) {
    return kBadRequest;
  }
  if (version[5] != '1' || version[7] > '1') return kVersion;
  const size_t mark = std::min(target.find('?'), target.size());
  plain.path = target.substr(0, mark);
  plain.query = target.substr(std::min(mark + 1, target.size()));
  plain.method = words[0];
  if (plain.method != "GET" && plain.method != "HEAD" && plain.method != "POST") {
    return kNotAllowed;
  }
  return kOk;
}

Plain plain_request(const std::string& bytes) {
  Plain plain = {kIncomplete, "", "", "", ""};
  const size_t end = bytes.find("\r\n\r\n");
  if (end == bytes.npos || end + 4 > kLongestHead) {
    if (bytes.size() >= kLongestHead) plain.status = kHeadTooLong;
    return plain;
  }
  std::vector<std::string> lines = split(bytes.substr(0, end), "\r\n");
  const std::string first = lines.front();
  plain.status = plain_first_line(first, plain);
  if (plain.status != kOk) return plain;
  lines.erase(lines.begin());
  plain.status = kBadRequest;
  std::vector<std::string> hosts, lengths;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i == kMostFields) {
      plain.status = kHeadTooLong;
      return plain;
    }
    const size_t colon = std::min(lines[i].find(':'), lines[i].size());
    std::string name = lines[i].substr(0, colon);
    std::string value = lines[i].substr(std::min(colon + 1, lines[i].size()));
    if (colon == lines[i].size() || !consists_of(name, kToken)) return plain;
    for (const char c : value) {
      if ((c >= 0 && c < ' ' && c != '\t') || c == 127) return plain;
    }
    for (char& c : name) c = static_cast<char>(tolower(c));
    const size_t begin = std::min(value.find_first_not_of(" \t"), value.size());
    value = value.substr(begin, value.find_last_not_of(" \t") + 1 - begin);
    if (name == "host") {
      hosts.push_back(value);
      if (hosts.size() > 1) return plain;
    } else if (name == "transfer-encoding") {
      plain.status = kNotImplemented;
      return plain;
    } else if (name == "expect") {
      plain.status = kExpectation;
      return plain;
    } else if (name == "content-length") {
      lengths.push_back(value);
      if (lengths.size() > 1 || !consists_of(value, kDigits)) return plain;
      const size_t zeros = std::min(value.find_first_not_of('0'), value.size());
      lengths[0] =
          std::string(20 - std::min<size_t>(value.size() - zeros, 20), '0') + value.substr(zeros);
      if (lengths[0].size() > 20 || lengths[0] > "18446744073709551615") return plain;
    }
  }
  if (hosts.empty() && first.back() == '1') return plain;
  const uint64_t length = lengths.empty() ? 0 : std::stoull(lengths[0]);
  plain.status = length > kLongestBody             ? kBodyTooLong
                 : bytes.size() - end - 4 < length ? kIncomplete
                                                   : kOk;
  if (plain.status == kOk) plain.body = bytes.substr(end + 4, length);
  return plain;
}

// Exactly as many bytes as there are, so that the sanitizer sees one more that is read.
Status status_of(const uint8_t* data, size_t size, Request& request,
                 std::unique_ptr<char[]>& copy) {
  copy = std::make_unique<char[]>(size);
  std::copy(data, data + size, copy.get());
  return read_request({copy.get(), size}, request);
}

const char* name_of(Method method) {
  return method == Method::kGet ? "GET" : method == Method::kHead ? "HEAD" : "POST";
}

}  // namespace

// The bytes of a request, as they are.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Request request;
  std::unique_ptr<char[]> copy;
  const Status status = status_of(data, size, request, copy);
  const Plain plain = plain_request(std::string(data, data + size));
  if (status != plain.status) fuzz::wrong("status %u and not %u", status, plain.status);
  if (status == kOk || status == kNotAllowed) {
    if (request.path != plain.path || request.query != plain.query) fuzz::wrong("another target");
  }
  if (status == kOk && (name_of(request.method) != plain.method || request.body != plain.body)) {
    fuzz::wrong("another request");
  }
  for (size_t part = 0; part < size; part += 1 + part / 64) {
    Request early;
    const Status first = status_of(data, part, early, copy);
    if (first != kIncomplete && first != status) {
      fuzz::wrong("after %zu bytes %u and then %u", part, first, status);
    }
    if (first == kOk &&
        (early.path.size() != request.path.size() || early.body.size() != request.body.size())) {
      fuzz::wrong("after %zu bytes another request", part);
    }
  }
  uint64_t number = 1;
  const std::string text(data, data + size);
  const bool good = read_parameter(text, "seconds", number);
  if (!good && number != 1 && text.find("seconds=") != 0) fuzz::wrong("a number from nowhere");
  if (good && !text.empty() && text.find("seconds=") != 0) fuzz::wrong("another parameter");
  return 0;
}
