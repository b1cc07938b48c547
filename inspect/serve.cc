// HTTP/1.1 for `curl`, Prometheus and the `loft` command: one client at a time, one request a
// connection. A client that is slow is given up, so that the next one waits no longer than
// kRequestMs + kAnswerMs + kEndMs. Whatever is long is written into a file of the system's memory
// first, as a whole: so its length is known, and what it is written from does not wait for a slow
// reader. Nothing here allocates.
#include "inspect/serve.h"

#include <errno.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/text.h"
#include "inspect/place.h"
#include "inspect/request.h"

namespace loft::inspect {

namespace {

// A request is sent in one go by whoever is on the same machine.
constexpr uint64_t kRequestMs = 5000;
// An answer may have to wait for a reader that was stopped for a moment. `loft` waits for 20 s.
constexpr uint64_t kAnswerMs = 10'000;
// What the peer may still send is read: if it were not, the peer could lose the answer.
constexpr uint64_t kEndMs = 1000;
constexpr uint64_t kLongestSleepMs = 200;
// After a call that was refused, because the process may have no more files, or by a filter.
constexpr long kPauseMs = 100;

constexpr char kText[] = "text/plain; charset=utf-8";

uint64_t now_ms() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000 + static_cast<uint64_t>(now.tv_nsec) / 1'000'000;
}

void pause() {
  const timespec length = {0, kPauseMs * 1'000'000};
  nanosleep(&length, nullptr);
}

// False if nothing comes until then, or the server is to end.
bool wait_for(const Served& loft, int file, short events, uint64_t until) {
  for (uint64_t now = now_ms(); now < until && loft.goes_on(); now = now_ms()) {
    pollfd polled = {file, events, 0};
    const int found = poll(&polled, 1, static_cast<int>(least(until - now, kLongestSleepMs)));
    if (found > 0) return true;
    if (found < 0 && errno != EINTR) pause();
  }
  return false;
}

bool is_later() { return errno == EAGAIN || errno == EINTR || errno == ENOBUFS; }

// ---- What each address answers ----

struct Route {
  std::string_view path;
  const char* type;
  Told what = Told::kMetrics;
  bool is_posted = false;
};
constexpr Route kRoutes[] = {
    {"/metrics", "text/plain; version=0.0.4; charset=utf-8"},
    {"/stats.json", "application/json", Told::kStats},
    {"/slabs.json", "application/json", Told::kMap},
    {"/debug/pprof/heap", "application/octet-stream", Told::kProfile},
    {"/peak", "application/octet-stream", Told::kPeak},
    {"/purge", "application/json", Told::kPurge, true},
};
constexpr Route kOptions = {"/options", kText, {}, true};
constexpr char kNoAddress[] =
    "404 there are GET /metrics, /stats.json, /slabs.json?from=ADDRESS, /debug/pprof/heap and "
    "/peak; POST /purge; and POST /options with lines NAME=VALUE";

uint64_t number_of(int error) { return static_cast<unsigned>(error); }

Text outcome(int error) {
  if (error == 0) return Text() << kRead;
  if (error != ENODATA) {
    return Text() << "503 the answer could not be written: error " << number_of(error);
  }
  return Text()
         << "503 there is no profile: the option profile is off; POST profile=on to /options";
}

// Lines are obeyed in turn, until one cannot be.
Text set_options(const Served& loft, std::string_view left, int file) {
  uint64_t set = 0;
  for (uint64_t number = 1; !left.empty(); ++number) {
    std::string_view line = take_line(left, "\n");
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty()) continue;
    const bool has_value = line.find('=') != line.npos;
    const std::string_view name = take_line(line, "=");
    const int error = has_value ? loft.set_option(name, line) : EINVAL;
    if (error != 0) {
      return Text() << "400 line " << number << ": "
                    << (error == ENOENT   ? "there is no such option"
                        : error == EPERM  ? "this option is fixed"
                        : error == EACCES ? "paths are set by the program alone"
                                          : "the option does not take that value")
                    << "; options set before it: " << set;
    }
    ++set;
  }
  const Text said = Text() << "options set: " << set << "\n";
  return outcome(write(file, said.data(), said.size()) < 0 ? errno : 0);
}

// Writes into the file, or returns another status than 200, with which the reason is the answer.
Text answer(const Served& loft, const Request& request, int file, const Route** to) {
  for (const Route& route : kRoutes) {
    if (route.path == request.path) *to = &route;
  }
  const Route& route = **to;
  if (route.path != request.path) return Text() << kNoAddress;
  if (route.is_posted != request.posts) {
    return Text() << "405 this address takes " << (route.is_posted ? "POST" : "GET");
  }
  std::string_view number = request.query;
  uint64_t from = 0;
  if (!number.empty() && (route.what != Told::kMap || take_line(number, "=") != "from" ||
                          !parse_number(number, from))) {
    return Text() << "400 /slabs.json?from=ADDRESS, in decimal digits, is the one parameter";
  }
  if (*to == &kOptions) return set_options(loft, request.body, file);
  return outcome(loft.write(route.what, file, from));
}

// ---- One client ----

bool send_all(const Served& loft, int peer, const char* from, size_t bytes, uint64_t until) {
  while (bytes != 0) {
    const ssize_t sent = send(peer, from, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (!is_later() || !wait_for(loft, peer, POLLOUT, until))) return false;
    if (sent < 0) continue;
    from += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return true;
}

bool send_head(const Served& loft, int peer, const Text& status, const char* type, uint64_t length,
               uint64_t until) {
  const Text head = Text() << "HTTP/1.1 " << status.data() << "\r\nContent-Type: " << type
                           << "\r\nContent-Length: " << length
                           << "\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n";
  return send_all(loft, peer, head.data(), head.size(), until);
}

// False, here and below: the client is gone, or was too slow. The reason behind the number is all
// of the answer.
bool refuse(const Served& loft, int peer, const Text& status) {
  const Text body = Text() << (status.data() + 4) << "\n";
  const uint64_t until = now_ms() + kAnswerMs;
  return send_head(loft, peer, status, kText, body.size(), until) &&
         send_all(loft, peer, body.data(), body.size(), until);
}

bool send_file(const Served& loft, int peer, int file, const char* type) {
  const uint64_t until = now_ms() + kAnswerMs;
  const off_t length = lseek(file, 0, SEEK_END);
  bool goes_on = send_head(loft, peer, outcome(0), type, static_cast<uint64_t>(length), until);
  char piece[size_t{16} << 10];
  for (off_t at = 0; goes_on && at < length;) {
    const ssize_t got = pread(file, piece, sizeof(piece), at);
    goes_on = got > 0 && send_all(loft, peer, piece, static_cast<size_t>(got), until);
    at += got;
  }
  return goes_on;
}

int new_file() {
  // A system may give no file that can be made executable. Older ones do not know the flag.
  constexpr unsigned kNeverExecuted = 8;  // MFD_NOEXEC_SEAL
  int file = memfd_create("loft", MFD_CLOEXEC | kNeverExecuted);
  if (file < 0) file = memfd_create("loft", MFD_CLOEXEC);
  return above_standard(file);
}

bool take_request(const Served& loft, int peer, const Request& request) {
  const int file = new_file();
  if (file < 0) return refuse(loft, peer, Text() << "503 the system gives no file for the answer");
  const Route* route = &kOptions;
  const Text status = answer(loft, request, file, &route);
  const bool is_there = std::string_view(status.data()) == kRead;
  const bool sent =
      is_there ? send_file(loft, peer, file, route->type) : refuse(loft, peer, status);
  close(file);
  return sent;
}

bool take_client(const Served& loft, int peer) {
  char bytes[kLongestHead + kLongestBody];
  size_t received = 0;
  const uint64_t until = now_ms() + kRequestMs;
  while (wait_for(loft, peer, POLLIN, until)) {
    const ssize_t got = recv(peer, bytes + received, sizeof(bytes) - received, MSG_DONTWAIT);
    if (got < 0 && is_later()) continue;
    if (got < 0 || (got == 0 && received == 0)) return false;
    received += static_cast<size_t>(got);
    Request request;
    const char* const status = read_request({bytes, received}, request);
    if (status == kIncomplete && got != 0) continue;
    if (status != kRead) return refuse(loft, peer, Text() << status);
    return take_request(loft, peer, request);
  }
  return false;
}

// Who may look into the process by other ways, too: root, and its user, unless the process can
// take the rights of another one again.
bool is_trusted(int peer) {
  ucred who = {};
  socklen_t size = sizeof(who);
  if (getsockopt(peer, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return false;
  if (who.uid == 0) return true;
  uid_t real = 0;
  uid_t effective = 0;
  uid_t saved = 0;
  return getresuid(&real, &effective, &saved) == 0 && who.uid == effective && real == effective &&
         saved == effective;
}

void take_one(const Served& loft, int listener) {
  const int peer =
      above_standard(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (peer < 0) {
    if (!is_later() && errno != ECONNABORTED) pause();
    return;
  }
  const Text stranger = Text() << "403 this is for the program's own user, and for root";
  if (is_trusted(peer) ? take_client(loft, peer) : refuse(loft, peer, stranger)) {
    shutdown(peer, SHUT_WR);
    char rest[1024];
    const uint64_t until = now_ms() + kEndMs;
    while (wait_for(loft, peer, POLLIN, until) &&
           recv(peer, rest, sizeof(rest), MSG_DONTWAIT) > 0) {
    }
  }
  close(peer);
}

}  // namespace

const char* serve(const Served& loft, const char* path) {
  static Text why;
  const int listener = take_place(path, &why);
  if (listener < 0) return why.data();
  loft.begins();
  while (loft.goes_on()) {
    if (wait_for(loft, listener, POLLIN, UINT64_MAX)) take_one(loft, listener);
  }
  // Before the descriptor is closed: until then nobody takes the file for a dead one, and no other
  // file has its number.
  remove_place();
  close(listener);
  return nullptr;
}

}  // namespace loft::inspect
