// What answers on the socket, part by part: the parser, answers, connections with a clock of the
// test's own, the file of the socket, the map of the heap.
#include "serve/request.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "control.h"
#include "loft/loft.h"
#include "os/os.h"
#include "profile/snapshot.h"
#include "serve/answer.h"
#include "serve/connection.h"
#include "serve/place.h"
#include "serve/routes.h"
#include "serve/slabs.h"
#include "stats/report.h"

namespace loft::serve {
namespace {

const std::string kGood = "GET /stats.json?a=1 HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n";
const std::string kPosted = "POST /options HTTP/1.1\r\nhost:x\r\nContent-Length:  4 \r\n\r\na=1\n";

Status status_of(const std::string& bytes) {
  // Exactly as long as it is, for the address sanitizer.
  const std::vector<char> exact(bytes.begin(), bytes.end());
  Request request;
  return read_request({exact.data(), exact.size()}, request);
}

std::string with_field(const std::string& field) {
  return "GET / HTTP/1.1\r\nHost: x\r\n" + field + "\r\n\r\n";
}

TEST(Parser, ReadsWhatIsThere) {
  Request request;
  ASSERT_EQ(read_request(kGood, request), kOk);
  EXPECT_EQ(request.method, Method::kGet);
  EXPECT_EQ(request.path, "/stats.json");
  EXPECT_EQ(request.query, "a=1");
  EXPECT_EQ(request.body, "");
  const std::string more = kPosted + "GET / HTTP/1.1\r\n";
  ASSERT_EQ(read_request(more, request), kOk);
  EXPECT_EQ(request.method, Method::kPost);
  EXPECT_EQ(request.query, "");
  EXPECT_EQ(request.body, "a=1\n");
  ASSERT_EQ(read_request("HEAD /?x?y HTTP/1.0\r\n\r\n", request), kOk);
  EXPECT_EQ(request.method, Method::kHead);
  EXPECT_EQ(request.path, "/");
  EXPECT_EQ(request.query, "x?y");
}

TEST(Parser, WaitsForTheRestByteByByte) {
  for (const std::string& whole : {kGood, kPosted}) {
    for (size_t size = 0; size < whole.size(); ++size) {
      EXPECT_EQ(status_of(whole.substr(0, size)), kIncomplete) << size;
    }
    EXPECT_EQ(status_of(whole), kOk);
  }
}

TEST(Parser, EveryOtherByteOfTheFirstLineIsRefusedOrMeansAnother) {
  const std::string line = "GET /peak HTTP/1.1";
  for (size_t i = 0; i < line.size(); ++i) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = line;
      changed[i] = static_cast<char>(byte);
      Request request;
      const std::string bytes = changed + "\r\nHost: x\r\n\r\n";
      const Status status = read_request(bytes, request);
      if (status != kOk) {
        EXPECT_TRUE(status == kBadRequest || status == kNotAllowed || status == kVersion) << bytes;
        continue;
      }
      const std::string target = std::string(request.path) +
                                 (changed.find('?') == changed.npos ? "" : "?") +
                                 std::string(request.query);
      EXPECT_EQ(changed.substr(0, 4) + target + changed.substr(9), changed) << bytes;
    }
  }
}

TEST(Parser, RefusesByStatus) {
  const std::string long_path(kLongestHead, 'a');
  std::string many_fields;
  for (unsigned i = 0; i < kMostFields; ++i) many_fields += "\r\nA: b";
  const std::pair<std::string, Status> cases[] = {
      {"\r\n\r\n", kBadRequest},
      {"\r\n" + kGood, kBadRequest},
      {"GET\r\n\r\n", kBadRequest},
      {"GET /\r\n\r\n", kBadRequest},
      {"GET  HTTP/1.1\r\nHost: x\r\n\r\n", kBadRequest},
      {"GET / / HTTP/1.1\r\nHost: x\r\n\r\n", kBadRequest},
      {"GET  / HTTP/1.1\r\nHost: x\r\n\r\n", kBadRequest},
      {" GET / HTTP/1.1\r\nHost: x\r\n\r\n", kBadRequest},
      {"GET / HTTP/1.1 \r\nHost: x\r\n\r\n", kBadRequest},
      {"GET / HTTP/1.1\nHost: x\n\n\r\n\r\n", kBadRequest},
      {"GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n", kBadRequest},
      {"GET * HTTP/1.1\r\nHost: x\r\n\r\n", kBadRequest},
      {"GET /\x80 HTTP/1.1\r\nHost: x\r\n\r\n", kBadRequest},
      {"GET / http/1.1\r\nHost: x\r\n\r\n", kBadRequest},
      {"GET / HTTP/11\r\nHost: x\r\n\r\n", kBadRequest},
      {"GET / HTTP/2.0\r\nHost: x\r\n\r\n", kVersion},
      {"GET / HTTP/1.2\r\nHost: x\r\n\r\n", kVersion},
      {"get / HTTP/1.1\r\nHost: x\r\n\r\n", kNotAllowed},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", kBadRequest},
      {"DELETE / HTTP/1.1\r\nHost: x\r\n\r\n", kNotAllowed},
      {"G\xc3\x84T / HTTP/1.1\r\nHost: x\r\n\r\n", kBadRequest},
      {"GET / HTTP/1.1\r\n\r\n", kBadRequest},  // no Host
      {"GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", kBadRequest},
      {with_field("Host : x"), kBadRequest},
      {with_field("No colon"), kBadRequest},
      {with_field(": x"), kBadRequest},
      {with_field(" folded: x"), kBadRequest},
      {with_field("A: b\r\n c"), kBadRequest},
      {with_field("A: \x01"), kBadRequest},
      {with_field(std::string("A: \0", 4)), kBadRequest},
      {with_field("A: \x7f"), kBadRequest},
      {with_field("A: b\rC: d"), kBadRequest},
      {with_field("A: b\nC: d"), kBadRequest},
      {with_field("A:\t\x80 "), kOk},
      {with_field("Content-Length:"), kBadRequest},
      {with_field("Content-Length: -1"), kBadRequest},
      {with_field("Content-Length: +1"), kBadRequest},
      {with_field("Content-Length: 0x1"), kBadRequest},
      {with_field("Content-Length: 1 1"), kBadRequest},
      {with_field("Content-Length: 0, 0"), kBadRequest},
      {with_field("Content-Length: 0\r\nContent-Length: 0"), kBadRequest},
      {with_field("Content-Length: 18446744073709551616"), kBadRequest},
      {with_field("Content-Length: 18446744073709551615"), kBodyTooLong},
      {with_field("Content-Length: 4097"), kBodyTooLong},
      {with_field("Content-Length: 4096"), kIncomplete},
      {with_field("Content-Length: 0"), kOk},
      {with_field("Transfer-Encoding: chunked"), kNotImplemented},
      {with_field("EXPECT: 100-continue"), kExpectation},
      {"GET / HTTP/1.1\r\nHost: x" + many_fields + "\r\n\r\n", kHeadTooLong},
      {"GET /" + long_path, kHeadTooLong},
      {"GET /" + long_path + " HTTP/1.1\r\nHost: x\r\n\r\n", kHeadTooLong},
      {std::string(kLongestHead, '\0'), kHeadTooLong},
      {std::string(kLongestHead - 1, '\0'), kIncomplete},
  };
  for (const auto& [bytes, status] : cases) EXPECT_EQ(status_of(bytes), status) << bytes;
}

TEST(Parser, ALongestHeadIsRead) {
  const std::string begin = "GET / HTTP/1.1\r\nHost: x\r\nA: ";
  const std::string fill(kLongestHead - begin.size() - 4, 'a');
  EXPECT_EQ(status_of(begin + fill + "\r\n\r\n"), kOk);
  EXPECT_EQ(status_of(begin + fill + "a\r\n\r\n"), kHeadTooLong);
}

TEST(Parser, OneParameter) {
  uint64_t n = 7;
  EXPECT_TRUE(read_parameter("", "seconds", n));
  EXPECT_EQ(n, 7u);
  EXPECT_TRUE(read_parameter("seconds=30", "seconds", n));
  EXPECT_EQ(n, 30u);
  for (const char* query : {"seconds", "seconds=", "seconds=x", "seconds=-1", "second=1", "=1",
                            "seconds=1&seconds=2", "Seconds=1", "seconds=99999999999999999999"}) {
    EXPECT_FALSE(read_parameter(query, "seconds", n)) << query;
  }
}

// --- Answers and connections ---

class Pair {
 public:
  explicit Pair(int buffer = 0) {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends_), 0);
    if (buffer != 0) setsockopt(ends_[0], SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
  }
  ~Pair() {
    for (const int end : ends_) {
      if (end >= 0) close(end);
    }
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  int server() const { return ends_[0]; }
  int client() const { return ends_[1]; }
  int give_server() { return std::exchange(ends_[0], -1); }
  void send(const std::string& text) const {
    ASSERT_EQ(write(client(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  // What has arrived. *ended: and nothing will follow.
  std::string receive(bool* ended = nullptr) const {
    std::string all;
    char piece[1000];
    ssize_t got = 0;
    while ((got = read(client(), piece, sizeof(piece))) > 0) {
      all.append(piece, static_cast<size_t>(got));
    }
    if (ended != nullptr) *ended = got == 0 || errno != EAGAIN;
    return all;
  }
  void leave() { close(std::exchange(ends_[1], -1)); }

 private:
  int ends_[2] = {-1, -1};
};

std::string body_of(const std::string& answer) {
  const size_t end = answer.find("\r\n\r\n");
  return end == answer.npos ? "no head" : answer.substr(end + 4);
}

TEST(Answers, ALineHasItsLength) {
  const Pair pair;
  Answer answer;
  answer.say(kNotFound, "not here");
  EXPECT_TRUE(answer.send_to(pair.server()));
  EXPECT_TRUE(answer.is_sent());
  EXPECT_EQ(pair.receive(),
            "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\n"
            "Content-Length: 9\r\nCache-Control: no-store\r\nConnection: close\r\n\r\nnot here\n");
}

TEST(Answers, TheLongestLineFits) {
  const Pair pair;
  Answer answer;
  const std::string text(Text::kCapacity + 100, 'x');
  answer.say(kHeadTooLong, text.c_str());
  EXPECT_TRUE(answer.send_to(pair.server()));
  EXPECT_EQ(body_of(pair.receive()), std::string(Text::kCapacity, 'x') + "\n");
}

TEST(Answers, ASlowReaderGetsAll) {
  const Pair pair(4096);
  Answer answer;
  const int file = answer.begin_file();
  ASSERT_GE(file, 3);
  std::string whole;
  for (int i = 0; i < 40'000; ++i) whole += std::to_string(i) + "\n";
  ASSERT_EQ(write(file, whole.data(), whole.size()), static_cast<ssize_t>(whole.size()));
  answer.end_file("text/plain", 0);
  std::string got;
  unsigned steps = 0;
  while (!answer.is_sent()) {
    ASSERT_TRUE(answer.send_to(pair.server()));
    // Reads only now and then, so that most calls find no room.
    if (++steps % 8 == 0) got += pair.receive();
  }
  got += pair.receive();
  EXPECT_EQ(body_of(got), whole);
  answer.clear();
  EXPECT_EQ(fcntl(file, F_GETFD), -1);
}

TEST(Answers, AReaderThatIsGone) {
  Pair pair;
  Answer answer;
  answer.say(kOk, "nobody reads this");
  pair.leave();
  EXPECT_FALSE(answer.send_to(pair.server()));  // and no SIGPIPE
}

TEST(Answers, AWritersErrorIsSaid) {
  const Pair pair;
  Answer answer;
  ASSERT_GE(answer.begin_file(), 3);
  answer.end_file("text/plain", ENOSPC);
  EXPECT_TRUE(answer.send_to(pair.server()));
  const std::string got = pair.receive();
  EXPECT_EQ(got.substr(0, 12), "HTTP/1.1 503");
  EXPECT_EQ(body_of(got), "the answer could not be written: error 28\n");
}

std::string changed;
int change(std::string_view name, std::string_view value) {
  if (name == "unknown") return ENOENT;
  changed += std::string(name) + ":" + std::string(value) + ";";
  return 0;
}

constexpr uint64_t kSecond = 1'000'000'000;

class Connected : public testing::Test {
 protected:
  void SetUp() override {
    changed.clear();
    connection_->begin(pair_.give_server(), 0);
  }
  void TearDown() override {
    if (!connection_->is_free()) connection_->close();
  }
  std::string ask(const std::string& text) {
    pair_.send(text);
    connection_->on_events(change, 1);
    return pair_.receive(&ended_);
  }

  Pair pair_;
  bool ended_ = false;
  std::unique_ptr<Connection> connection_ = std::make_unique<Connection>();
};

TEST_F(Connected, ByteByByte) {
  const std::string request = "GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n";
  for (const char c : request.substr(0, request.size() - 1)) EXPECT_EQ(ask({c}), "");
  EXPECT_EQ(ask("\n").substr(0, 12), "HTTP/1.1 404");
  EXPECT_TRUE(ended_);
  EXPECT_FALSE(connection_->is_free());  // until the peer is through, too
  pair_.leave();
  connection_->on_events(change, 2);
  EXPECT_TRUE(connection_->is_free());
}

TEST_F(Connected, ARequestThatDoesNotCome) {
  EXPECT_EQ(connection_->deadline(), 5 * kSecond);
  EXPECT_EQ(ask("GET / HT"), "");
  EXPECT_EQ(connection_->deadline(), 5 * kSecond);  // a byte now and then does not put it off
  connection_->on_time(5 * kSecond);
  EXPECT_EQ(pair_.receive().substr(0, 12), "HTTP/1.1 408");
  EXPECT_EQ(connection_->deadline(), 6 * kSecond);
  connection_->on_time(6 * kSecond);
  EXPECT_TRUE(connection_->is_free());
}

TEST_F(Connected, HalfClosedBehindItsRequest) {
  pair_.send("POST /options HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\na=1\nb=2\n");
  shutdown(pair_.client(), SHUT_WR);
  connection_->on_events(change, 1);
  EXPECT_EQ(body_of(pair_.receive()), "options set: 2\n");
  EXPECT_EQ(changed, "a:1;b:2;");
  connection_->on_events(change, 2);
  EXPECT_TRUE(connection_->is_free());
}

TEST_F(Connected, HalfClosedWithinItsRequest) {
  pair_.send("GET / HTTP/1.1\r\n");
  connection_->on_events(change, 1);
  shutdown(pair_.client(), SHUT_WR);
  connection_->on_events(change, 1);
  EXPECT_EQ(pair_.receive().substr(0, 12), "HTTP/1.1 400");
}

TEST_F(Connected, ClosedWithoutARequest) {
  pair_.leave();
  connection_->on_events(change, 1);
  EXPECT_TRUE(connection_->is_free());
}

TEST_F(Connected, WhatFollowsTheRequestIsReadAndDropped) {
  const std::string flood(60'000, 'x');
  EXPECT_EQ(ask("GET /no HTTP/1.1\r\nHost: x\r\n\r\n" + flood).substr(0, 12), "HTTP/1.1 404");
  for (int i = 0; i < 20; ++i) connection_->on_events(change, 2);
  EXPECT_FALSE(connection_->is_free());
  EXPECT_EQ(connection_->deadline(), kSecond + 1);  // for so long, whatever is sent
}

TEST_F(Connected, LinesOfOptionsAreObeyedUntilOneIsNot) {
  const std::string body = "a=1\r\n\nb==2\nunknown=3\nc=4";
  const std::string got =
      ask("POST /options HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) +
          "\r\n\r\n" + body);
  EXPECT_EQ(got.substr(0, 12), "HTTP/1.1 400");
  EXPECT_EQ(body_of(got), "line 4: there is no such option; options set before it: 2\n");
  EXPECT_EQ(changed, "a:1;b:=2;");
}

TEST_F(Connected, TooManyOrAStranger) {
  connection_->close();
  Pair other;
  connection_->refuse(other.give_server(), 0, kForbidden, "no");
  EXPECT_EQ(other.receive().substr(0, 12), "HTTP/1.1 403");
  EXPECT_FALSE(connection_->is_free());
}

TEST_F(Connected, MethodsAndParameters) {
  const std::pair<std::string, int> cases[] = {
      {"PUT /peak", 405},
      {"POST /peak", 405},
      {"GET /purge", 405},
      {"PUT /nowhere", 404},
      {"GET /peak?x=1", 400},
      {"GET /debug/pprof/allocs?seconds=1", 400},
      {"GET /debug/pprof/heap?seconds=301", 400},
      {"GET /debug/pprof/heap?second=1", 400},
      {"GET /slabs.json?from=0x10", 400},
      {"GET /debug/pprof/heap?seconds=300", 503},  // no profile here
      {"GET /debug/pprof/heap", 503},
      {"GET /", 200},
      {"HEAD /", 200},
  };
  for (const auto& [line, status] : cases) {
    if (!connection_->is_free()) connection_->close();
    Pair pair;
    connection_->begin(pair.give_server(), 0);
    pair.send(line + " HTTP/1.1\r\nHost: x\r\n\r\n");
    connection_->on_events(change, 1);
    const std::string got = pair.receive();
    EXPECT_EQ(got.substr(0, 12), "HTTP/1.1 " + std::to_string(status)) << line;
    EXPECT_EQ(body_of(got).empty(), line == "HEAD /") << line;
    if (status == 405) {
      EXPECT_NE(got.find("\r\nAllow: "), got.npos) << line;
    }
  }
}

// --- The file of the socket ---

class PlaceTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/loft_place_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Returns why it was refused, or "".
  std::string open(const std::string& name) {
    Trouble trouble;
    file_ = place_.open((folder_ + "/" + name).c_str(), trouble);
    EXPECT_EQ(file_ < 0, trouble.what != nullptr);
    EXPECT_TRUE(trouble.what == nullptr || trouble.where == nullptr ||
                trouble.where == place_.path());
    return trouble.what == nullptr ? "" : trouble.what;
  }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  size_t files() const {
    const std::filesystem::directory_iterator all(folder_);
    return static_cast<size_t>(std::distance(begin(all), end(all)));
  }
  void close() { ::close(std::exchange(file_, -1)); }

  std::string folder_;
  Place place_;
  int file_ = -1;
};

TEST_F(PlaceTest, ModeWhateverTheMask) {
  const mode_t before = umask(0);
  EXPECT_EQ(open("a.%p"), "");
  umask(before);
  struct stat made;
  ASSERT_EQ(stat(path("a." + std::to_string(getpid())).c_str(), &made), 0);
  EXPECT_EQ(made.st_mode, S_IFSOCK | 0600u);
  EXPECT_NE(fcntl(file_, F_GETFD) & FD_CLOEXEC, 0);
  place_.remove();
  EXPECT_FALSE(std::filesystem::exists(place_.path()));
  close();
}

TEST_F(PlaceTest, ItsFirstNameTellsTheOther) {
  EXPECT_EQ(open("a"), "");
  sockaddr_un address = {};
  socklen_t size = sizeof(address);
  ASSERT_EQ(getsockname(file_, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string first = address.sun_path;
  EXPECT_EQ(first.find(path(".a~")), 0u);
  EXPECT_EQ(first.size(), path(".a~0123").size());
  EXPECT_FALSE(std::filesystem::exists(first));
  // That of a process that was killed at that moment is in nobody's way.
  EXPECT_EQ(files(), 1u);
  close();
}

TEST_F(PlaceTest, TheLongestPath) {
  const std::string name(101 - folder_.size() - 1, 'x');
  EXPECT_EQ(open(name), "");
  close();
  EXPECT_EQ(open(name), "");
  close();
  EXPECT_EQ(open(name + "x"), "the path is longer than 101 bytes");
  EXPECT_EQ(files(), 1u);
}

// Each of some processes makes the socket again and again, beside the others and what dead ones
// have left. Whoever has made it is reached by its name: nobody else has removed it, neither as a
// dead one nor before anybody listened.
TEST_F(PlaceTest, OneOfManyHasIt) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path("a").copy(address.sun_path, sizeof(address.sun_path) - 1);
  // Nobody answers, so the queue of those who look whether somebody does may be full.
  const auto is_ours = [&address] {
    const int peer = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const bool reached = connect(peer, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    ucred who = {};
    socklen_t size = sizeof(who);
    const bool ours =
        reached ? getsockopt(peer, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.pid == getpid()
                : errno == EAGAIN;
    ::close(peer);
    return ours;
  };
  pid_t children[4] = {};
  for (unsigned i = 0; i < 4; ++i) {
    children[i] = fork();
    if (children[i] != 0) continue;
    test::end_what_hangs();
    for (unsigned round = 0; round < 200; ++round) {
      if (!open("a").empty()) continue;
      if (!is_ours()) _exit(1);
      if (i % 2 == 0) place_.remove();
      close();
    }
    _exit(0);
  }
  for (const pid_t child : children) {
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_LE(files(), 1u);
}

TEST_F(PlaceTest, ADeadSocketIsReplaced) {
  EXPECT_EQ(open("a"), "");
  close();  // as a process that was killed: the file stays
  ASSERT_TRUE(std::filesystem::exists(path("a")));
  EXPECT_EQ(open("a"), "");
  close();
}

TEST_F(PlaceTest, NothingElseIs) {
  EXPECT_EQ(open("a"), "");
  const int live = file_;
  EXPECT_NE(open("a").find("another process"), std::string::npos);
  ::close(live);
  std::ofstream(path("text")) << "kept";
  EXPECT_NE(open("text").find("no socket"), std::string::npos);
  std::string kept;
  std::ifstream(path("text")) >> kept;
  EXPECT_EQ(kept, "kept");
  std::filesystem::create_symlink(path("a"), path("link"));
  EXPECT_NE(open("link").find("no socket"), std::string::npos);
}

TEST_F(PlaceTest, WhereNoneCanBe) {
  EXPECT_NE(open("missing/a").find("folder does not exist"), std::string::npos);
  EXPECT_NE(open(std::string(200, 'x')).find("101 bytes"), std::string::npos);
  std::ofstream(path("text")) << "x";
  EXPECT_NE(open("text/a").find("is none"), std::string::npos);
}

TEST_F(PlaceTest, AChildByABareCloneLeavesIt) {
  EXPECT_EQ(open("a"), "");
  const auto child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  if (child == 0) {
    place_.remove();
    _exit(0);
  }
  ASSERT_GT(child, 0);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(std::filesystem::exists(path("a")));
  place_.remove();
  EXPECT_FALSE(std::filesystem::exists(path("a")));
  close();
}

TEST_F(PlaceTest, AnotherFileOfThatNameStays) {
  EXPECT_EQ(open("a"), "");
  std::filesystem::remove(path("a"));
  std::ofstream(path("a")) << "somebody else's";
  place_.remove();
  EXPECT_TRUE(std::filesystem::exists(path("a")));
  close();
  std::filesystem::remove(path("a"));
  EXPECT_EQ(open("a"), "");
  place_.forget();
  place_.remove();
  EXPECT_TRUE(std::filesystem::exists(path("a")));
  close();
}

// --- The map of the heap ---

std::string slabs(uint64_t from, size_t most) {
  std::string text(1 << 20, 0);
  Output output = Output::to_memory(text.data(), text.size());
  write_slabs(output, from, most);
  text.resize(output.size());
  return text;
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(Map, PagesOfItTellTheSame) {
  std::vector<void*> objects;
  for (const size_t size : {16u, 100u, 5000u, 40'000u, 5u << 20}) {
    objects.push_back(loft_malloc(size));
  }
  const std::string whole = slabs(0, 100'000);
  EXPECT_NE(whole.find("\"next\": null"), whole.npos);
  for (const char* kind : {"slab", "medium", "large"}) {
    EXPECT_GE(count(whole, std::string("\"kind\": \"") + kind), 1u) << kind;
  }
  EXPECT_EQ(count(whole, "{"), count(whole, "}"));
  const size_t ranges = count(whole, "\"at\": ");
  size_t listed = 0;
  uint64_t from = 0;
  do {
    const std::string page = slabs(from, 2);
    EXPECT_LE(count(page, "\"at\": "), 2u);
    listed += count(page, "\"at\": ");
    const std::string next = page.substr(page.find("\"next\": ") + 8);
    from = next.starts_with("null") ? 0 : std::stoull(next);
  } while (from != 0);
  EXPECT_EQ(listed, ranges);
  for (void* p : objects) loft_free(p);
}

// --- What a difference is made of ---

TEST(Differences, OfNoSites) {
  profile::Earlier earlier;
  EXPECT_TRUE(profile::remember(earlier, 1));
  EXPECT_EQ(earlier.count, 0u);
  profile::forget(earlier);
}

TEST(Differences, OnlyMemoryInUseBecomesLess) {
  const profile::Figures before = {10, 1000, 8, 800};
  const profile::Figures more = profile::difference({15, 1700, 3, 200}, before);
  EXPECT_EQ(more.allocated_objects, 5u);
  EXPECT_EQ(more.allocated_bytes, 700u);
  EXPECT_EQ(static_cast<int64_t>(more.used_objects), -5);
  EXPECT_EQ(static_cast<int64_t>(more.used_bytes), -600);
  const profile::Figures less = profile::difference({9, 999, 8, 800}, before);
  EXPECT_EQ(less.allocated_objects, 0u);
  EXPECT_EQ(less.allocated_bytes, 0u);
  EXPECT_EQ(less.used_objects, 0u);
}

// A large object that grows in its place stands for fewer than before, and so what is said to have
// been allocated falls.
TEST(Differences, OfAnObjectThatGrowsInItsPlace) {
  ASSERT_EQ(loft_option_set("sample_bytes", "8M"), 0);
  ASSERT_EQ(loft_option_set("profile", "on"), 0);
  std::vector<void*> objects;
  for (int i = 0; i < 32; ++i) objects.push_back(loft_malloc(5 << 20));
  profile::Earlier earlier;
  ASSERT_TRUE(profile::remember(earlier, 1000));
  for (void*& p : objects) p = loft_realloc(p, 12 << 20);
  const profile::Site* site = profile::newest_site();
  while (site != earlier.newest) site = site->older;
  uint64_t fell = 0;
  for (size_t i = 0; i < earlier.count; ++i, site = site->older) {
    const profile::Figures now = profile::figures_of(*site, profile::Moment::kNow);
    fell += now.allocated_objects < earlier.figures[i].allocated_objects ? 1 : 0;
    const profile::Figures change = profile::difference(now, earlier.figures[i]);
    EXPECT_LE(change.allocated_objects, now.allocated_objects);
    EXPECT_LE(change.allocated_bytes, now.allocated_bytes);
  }
  // Where the kernel moves no pages, each has become a new object.
  if (os::can_move_pages(false)) {
    EXPECT_GT(fell, 0u);
  }
  for (void* p : objects) loft_free(p);
  profile::forget(earlier);
  ASSERT_EQ(loft_option_set("profile", "off"), 0);
}

}  // namespace
}  // namespace loft::serve
