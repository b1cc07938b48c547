// What answers on the socket: the parser, the file of the socket, answers of the server in a thread
// of the test's, the map of the heap. (The parts of libloft-inspect that serve are built into this
// program once more.)
#include "inspect/serve.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "control.h"
#include "inspect/place.h"
#include "inspect/request.h"
#include "loft/loft.h"
#include "serve/slabs.h"
#include "stats/report.h"

namespace loft {
namespace {

using inspect::kChunked;
using inspect::kIncomplete;
using inspect::kLongestHead;
using inspect::kNoRequest;
using inspect::kOtherMethod;
using inspect::kRead;
using inspect::kTooLong;
using inspect::read_request;
using inspect::Request;
using Status = std::string;

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
  ASSERT_EQ(read_request(kGood, request), kRead);
  EXPECT_FALSE(request.posts);
  EXPECT_EQ(request.path, "/stats.json");
  EXPECT_EQ(request.query, "a=1");
  EXPECT_EQ(request.body, "");
  const std::string more = kPosted + "GET / HTTP/1.1\r\n";
  ASSERT_EQ(read_request(more, request), kRead);
  EXPECT_TRUE(request.posts);
  EXPECT_EQ(request.query, "");
  EXPECT_EQ(request.body, "a=1\n");
  ASSERT_EQ(read_request("GET /?x?y HTTP/1.0\r\n\r\n", request), kRead);
  EXPECT_FALSE(request.posts);
  EXPECT_EQ(request.path, "/");
  EXPECT_EQ(request.query, "x?y");
}

TEST(Parser, WaitsForTheRestByteByByte) {
  for (const std::string& whole : {kGood, kPosted}) {
    for (size_t size = 0; size < whole.size(); ++size) {
      EXPECT_EQ(status_of(whole.substr(0, size)), kIncomplete) << size;
    }
    EXPECT_EQ(status_of(whole), kRead);
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
      if (status != kRead) {
        EXPECT_TRUE(status == kNoRequest || status == kOtherMethod) << bytes;
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
  const std::pair<std::string, Status> cases[] = {
      {"\r\n\r\n", kNoRequest},
      {"\r\n" + kGood, kNoRequest},
      {"GET\r\n\r\n", kNoRequest},
      {"GET /\r\n\r\n", kNoRequest},
      {"GET  HTTP/1.1\r\nHost: x\r\n\r\n", kNoRequest},
      {"GET / / HTTP/1.1\r\nHost: x\r\n\r\n", kNoRequest},
      {"GET  / HTTP/1.1\r\nHost: x\r\n\r\n", kNoRequest},
      {" GET / HTTP/1.1\r\nHost: x\r\n\r\n", kNoRequest},
      {"GET / HTTP/1.1 \r\nHost: x\r\n\r\n", kNoRequest},
      {"GET / HTTP/1.1\nHost: x\n\n\r\n\r\n", kNoRequest},
      {"GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n", kNoRequest},
      {"GET * HTTP/1.1\r\nHost: x\r\n\r\n", kNoRequest},
      {"GET / http/1.1\r\nHost: x\r\n\r\n", kNoRequest},
      {"GET / HTTP/11\r\nHost: x\r\n\r\n", kNoRequest},
      {"GET / HTTP/2.0\r\nHost: x\r\n\r\n", kNoRequest},
      {"GET / HTTP/1.2\r\nHost: x\r\n\r\n", kNoRequest},
      {"get / HTTP/1.1\r\nHost: x\r\n\r\n", kOtherMethod},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", kNoRequest},
      {"DELETE / HTTP/1.1\r\nHost: x\r\n\r\n", kOtherMethod},
      {"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n", kOtherMethod},
      {"GET / HTTP/1.1\r\n\r\n", kRead},  // no Host: it would say nothing
      {with_field("Host : x"), kNoRequest},
      {with_field("No colon"), kNoRequest},
      {with_field(": x"), kNoRequest},
      {with_field(" folded: x"), kNoRequest},
      {with_field("A: b\r\n c"), kNoRequest},
      {with_field("A: \x01"), kNoRequest},
      {with_field(std::string("A: \0", 4)), kNoRequest},
      {with_field("A: \x7f"), kNoRequest},
      {with_field("A: b\rC: d"), kNoRequest},
      {with_field("A: b\nC: d"), kNoRequest},
      {with_field("A:\t\x80 "), kRead},
      {with_field("Content-Length:"), kNoRequest},
      {with_field("Content-Length: -1"), kNoRequest},
      {with_field("Content-Length: +1"), kNoRequest},
      {with_field("Content-Length: 0x1"), kNoRequest},
      {with_field("Content-Length: 1 1"), kNoRequest},
      {with_field("Content-Length: 0, 0"), kNoRequest},
      {with_field("Content-Length: 0\r\nContent-Length: 0"), kNoRequest},
      {with_field("Content-Length: 18446744073709551616"), kNoRequest},
      {with_field("Content-Length: 18446744073709551615"), kTooLong},
      {with_field("Content-Length: 4097"), kTooLong},
      {with_field("Content-Length: 4096"), kIncomplete},
      {with_field("Content-Length: 0"), kRead},
      {with_field("Transfer-Encoding: chunked"), kChunked},
      {with_field("EXPECT: 100-continue"), kRead},
      {"GET /" + long_path, kTooLong},
      {"GET /" + long_path + " HTTP/1.1\r\nHost: x\r\n\r\n", kTooLong},
      {std::string(kLongestHead, '\0'), kTooLong},
      {std::string(kLongestHead - 1, '\0'), kIncomplete},
  };
  for (const auto& [bytes, status] : cases) EXPECT_EQ(status_of(bytes), status) << bytes;
}

TEST(Parser, ALongestHeadIsRead) {
  const std::string begin = "GET / HTTP/1.1\r\nHost: x\r\nA: ";
  const std::string fill(kLongestHead - begin.size() - 4, 'a');
  EXPECT_EQ(status_of(begin + fill + "\r\n\r\n"), kRead);
  EXPECT_EQ(status_of(begin + fill + "a\r\n\r\n"), kTooLong);
}

// --- The server ---

class Folder : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/loft_place_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  size_t files() const {
    const std::filesystem::directory_iterator all(folder_);
    return static_cast<size_t>(std::distance(begin(all), end(all)));
  }

  std::string folder_;
};

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  return address;
}

// Written by the test before the server begins, or by the server.
std::string changed;
std::string long_text;
std::atomic<bool> listens{false};
std::atomic<bool> ends{false};

const inspect::Served kServed = {
    .begins = [] { listens = true; },
    .goes_on = [] { return !ends; },
    .write =
        [](inspect::Told what, int file, uint64_t from) {
          if (what == inspect::Told::kProfile) return ENODATA;
          if (what == inspect::Told::kPeak) return ENOSPC;
          const std::string text = what == inspect::Told::kStats
                                       ? long_text
                                       : std::to_string(int(what)) + ":" + std::to_string(from);
          return write(file, text.data(), text.size()) < 0 ? errno : 0;
        },
    .set_option =
        [](std::string_view name, std::string_view value) {
          if (name == "unknown") return ENOENT;
          changed += std::string(name) + ":" + std::string(value) + ";";
          return 0;
        }};

class Server : public Folder {
 protected:
  void SetUp() override {
    Folder::SetUp();
    changed.clear();
    long_text.clear();
    for (int i = 0; i < 400'000; ++i) long_text += std::to_string(i) + "\n";
    listens = ends = false;
    path_ = path("s");
    thread_ = std::thread([this] { why_ = inspect::serve(kServed, path_.c_str()); });
    while (!listens) std::this_thread::yield();
  }
  void TearDown() override {
    ends = true;
    thread_.join();
    EXPECT_EQ(why_, nullptr);
    EXPECT_EQ(files(), 0u);
    Folder::TearDown();
  }

  int connected() const {
    const sockaddr_un address = address_of(path_);
    const int peer = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(peer, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return peer;
  }
  // Sends the text, and reads until the server has ended. The connection is closed.
  static std::string ask(int peer, const std::string& text) {
    if (!text.empty()) {
      EXPECT_EQ(send(peer, text.data(), text.size(), MSG_NOSIGNAL), ssize_t(text.size()));
    }
    std::string all;
    char piece[1000];
    ssize_t got = 0;
    while ((got = read(peer, piece, sizeof(piece))) > 0) all.append(piece, size_t(got));
    close(peer);
    return all;
  }
  std::string get(const std::string& target) const {
    return ask(connected(), "GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n");
  }
  std::string post(const std::string& target, const std::string& body) const {
    return ask(connected(), "POST " + target + " HTTP/1.1\r\nContent-Length: " +
                                std::to_string(body.size()) + "\r\n\r\n" + body);
  }

  std::string path_;
  std::thread thread_;
  const char* why_ = "";
};

std::string body_of(const std::string& answer) {
  const size_t end = answer.find("\r\n\r\n");
  return end == answer.npos ? "no head" : answer.substr(end + 4);
}

TEST_F(Server, AnswersHaveTheirLengthAndTheirKind) {
  EXPECT_EQ(get("/metrics"),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
            "Content-Length: 3\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n0:0");
  EXPECT_EQ(post("/purge", ""),
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            "Content-Length: 3\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n5:0");
  EXPECT_EQ(body_of(get("/slabs.json?from=77")), "2:77");
}

TEST_F(Server, WhatIsLongArrivesWhole) {
  const int peer = connected();
  constexpr int kLittle = 4096;
  setsockopt(peer, SOL_SOCKET, SO_RCVBUF, &kLittle, sizeof(kLittle));
  EXPECT_EQ(body_of(ask(peer, "GET /stats.json HTTP/1.0\r\n\r\n")), long_text);
}

TEST_F(Server, RefusesWithOneLine) {
  const std::pair<std::string, std::string> cases[] = {
      {"/nowhere", "404 there are GET"},
      {"/", "404 there are GET"},
      {"/purge", "405 this address takes POST"},
      {"/metrics?x=1", "400 /slabs.json?from=ADDRESS"},
      {"/debug/pprof/heap?seconds=30", "400 /slabs.json?from=ADDRESS"},
      {"/slabs.json?from=0x10", "400 /slabs.json?from=ADDRESS"},
      {"/slabs.json?from", "400 /slabs.json?from=ADDRESS"},
      {"/slabs.json?to=1", "400 /slabs.json?from=ADDRESS"},
      {"/debug/pprof/heap", "503 there is no profile"},
      {"/peak", "503 the answer could not be written: error 28"},
      {"/two words", "400 this is no request"},
  };
  for (const auto& [target, status] : cases) {
    const std::string got = get(target);
    EXPECT_EQ(got.find("HTTP/1.1 " + status), 0u) << got;
    EXPECT_EQ(body_of(got).find(status.substr(4)), 0u) << got;
    EXPECT_EQ(body_of(got).find('\n'), body_of(got).size() - 1) << got;
  }
  EXPECT_EQ(post("/metrics", "").find("HTTP/1.1 405 this address takes GET"), 0u);
  EXPECT_EQ(post("/options", std::string(4097, 'x')).find("HTTP/1.1 413 "), 0u);
}

TEST_F(Server, LinesOfOptionsAreObeyedUntilOneIsNot) {
  EXPECT_EQ(body_of(post("/options", "a=1\nb=2\n")), "options set: 2\n");
  EXPECT_EQ(changed, "a:1;b:2;");
  const std::string got = post("/options", "a=1\r\n\nb==2\nunknown=3\nc=4");
  EXPECT_EQ(got.substr(0, 12), "HTTP/1.1 400");
  EXPECT_EQ(body_of(got), "line 4: there is no such option; options set before it: 2\n");
  EXPECT_EQ(changed, "a:1;b:2;a:1;b:=2;");
  EXPECT_EQ(body_of(post("/options", "none")),
            "line 1: the option does not take that value; options set before it: 0\n");
}

TEST_F(Server, ByteByByte) {
  const int peer = connected();
  const std::string request = "GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n";
  for (const char c : request.substr(0, request.size() - 1)) {
    EXPECT_EQ(send(peer, &c, 1, MSG_NOSIGNAL), 1);
  }
  EXPECT_EQ(ask(peer, "\n").substr(0, 12), "HTTP/1.1 404");
}

TEST_F(Server, PeersThatEndEarly) {
  close(connected());
  const int silent = connected();
  shutdown(silent, SHUT_WR);
  EXPECT_EQ(ask(silent, ""), "");
  const int half = connected();
  const std::string begin = "GET / HTTP/1.1\r\n";
  EXPECT_EQ(send(half, begin.data(), begin.size(), 0), ssize_t(begin.size()));
  shutdown(half, SHUT_WR);
  EXPECT_EQ(ask(half, "").substr(0, 12), "HTTP/1.1 400");
  const int whole = connected();
  const std::string request = begin + "\r\n";
  EXPECT_EQ(send(whole, request.data(), request.size(), 0), ssize_t(request.size()));
  shutdown(whole, SHUT_WR);
  EXPECT_EQ(ask(whole, "").substr(0, 12), "HTTP/1.1 404");
  const int gone = connected();
  const std::string much = "GET /stats.json HTTP/1.1\r\n\r\n";
  EXPECT_EQ(send(gone, much.data(), much.size(), 0), ssize_t(much.size()));
  close(gone);
  EXPECT_EQ(body_of(get("/metrics")), "0:0");
}

TEST_F(Server, WhatFollowsTheRequestIsReadAndDropped) {
  const std::string flood(60'000, 'x');
  const std::string got = ask(connected(), "GET /no HTTP/1.1\r\n\r\n" + flood);
  EXPECT_EQ(got.substr(0, 12), "HTTP/1.1 404");
}

TEST_F(Server, EndsBesideAPeerThatSaysNothing) {
  const int silent = connected();
  ends = true;
  EXPECT_EQ(ask(silent, ""), "");
}

// --- The file of the socket ---

class PlaceTest : public Folder {
 protected:
  // Returns why it was refused, or "".
  std::string open(const std::string& name) {
    Text why;
    file_ = inspect::take_place(path(name).c_str(), &why);
    EXPECT_EQ(file_ < 0, why.size() != 0);
    return why.data();
  }
  void close() { ::close(std::exchange(file_, -1)); }

  int file_ = -1;
};

TEST_F(PlaceTest, ModeWhateverTheMask) {
  const mode_t before = umask(0);
  EXPECT_EQ(open("a"), "");
  umask(before);
  struct stat made;
  ASSERT_EQ(stat(path("a").c_str(), &made), 0);
  EXPECT_EQ(made.st_mode, S_IFSOCK | 0600u);
  EXPECT_NE(fcntl(file_, F_GETFD) & FD_CLOEXEC, 0);
  inspect::remove_place();
  EXPECT_EQ(files(), 0u);
  close();
}

TEST_F(PlaceTest, TheLongestPath) {
  const std::string name(107 - folder_.size() - 1, 'x');
  EXPECT_EQ(open(name), "");
  close();
  EXPECT_EQ(open(name), "");
  close();
}

// Each of some processes makes the socket again and again, beside the others and what dead ones
// have left. Whoever has made it is reached by its name: nobody else has removed it, neither as a
// dead one nor before anybody listened.
TEST_F(PlaceTest, OneOfManyHasIt) {
  const sockaddr_un address = address_of(path("a"));
  // Nobody answers, so the queue of those who look whether somebody does may be full.
  const auto is_ours = [&address] {
    const int peer = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const bool reached =
        connect(peer, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
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
      if (i % 2 == 0) inspect::remove_place();
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
  EXPECT_EQ(open("missing/a"), "it cannot be made there: No such file or directory");
  std::ofstream(path("text")) << "x";
  EXPECT_EQ(open("text/a"), "it cannot be made there: Not a directory");
}

TEST_F(PlaceTest, AChildByABareCloneLeavesIt) {
  EXPECT_EQ(open("a"), "");
  const auto child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  if (child == 0) {
    inspect::remove_place();
    _exit(0);
  }
  ASSERT_GT(child, 0);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(std::filesystem::exists(path("a")));
  inspect::remove_place();
  EXPECT_FALSE(std::filesystem::exists(path("a")));
  close();
}

TEST_F(PlaceTest, AnotherFileOfThatNameStays) {
  EXPECT_EQ(open("a"), "");
  std::filesystem::remove(path("a"));
  std::ofstream(path("a")) << "somebody else's";
  inspect::remove_place();
  EXPECT_TRUE(std::filesystem::exists(path("a")));
  close();
}

// --- The map of the heap ---

std::string slabs(uint64_t from, size_t most) {
  std::string text(1 << 20, 0);
  Output output = Output::to_memory(text.data(), text.size());
  serve::write_slabs(output, from, most);
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

}  // namespace
}  // namespace loft
