// The socket beside threads that allocate: it comes, moves and goes, peers ask for everything, and
// the process forks.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "storm/support.h"

namespace storm {
namespace {

void set_socket(const std::string& path) { EXPECT_EQ(loft_option_set("socket", path.c_str()), 0); }

// What the socket answers; "" where there is none. By bare system calls: the thread sanitizer knows
// one table of files a process, and takes the socket's descriptors for these of the same numbers.
std::string ask(const std::string& path, const std::string& request) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const long peer = syscall(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_GE(peer, 0);
  std::string all;
  if (syscall(SYS_connect, peer, &address, sizeof(address)) == 0 &&
      syscall(SYS_sendto, peer, request.data(), request.size(), MSG_NOSIGNAL, nullptr, 0) > 0) {
    char piece[4096] = {};
    long got = 0;
    while ((got = syscall(SYS_read, peer, piece, sizeof(piece))) > 0) {
      all.append(piece, static_cast<size_t>(got));
    }
  }
  syscall(SYS_close, peer);
  return all;
}

std::string get(const std::string& target) {
  return "GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n";
}

std::string post(const std::string& target, const std::string& body) {
  return "POST " + target +
         " HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
         body;
}

class Socket : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/loft_storm_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};

TEST_F(Socket, ComesMovesAndGoes) {
  in_child([&] {
    const std::string one = folder_ + "/one";
    const std::string other = folder_ + "/other";
    const std::string requests[] = {get("/stats.json"),
                                    get("/slabs.json"),
                                    get("/metrics"),
                                    get("/debug/pprof/heap"),
                                    get("/nowhere"),
                                    "nonsense\r\n\r\n",
                                    post("/purge", ""),
                                    post("/options", "profile=on\ndecay_ms=50"),
                                    post("/options", "profile=off")};
    std::atomic<bool> done{false};
    on_threads(4, [&](unsigned t) {
      if (t == 0) {
        for (unsigned round = 0; round < scaled(12); ++round) {
          set_socket(one);
          EXPECT_EQ(ask(one, get("/stats.json")).substr(0, 12), "HTTP/1.1 200");
          set_socket(other);
          EXPECT_EQ(ask(other, post("/purge", "")).substr(0, 12), "HTTP/1.1 200");
          set_socket("none");
          EXPECT_EQ(ask(other, get("/")), "");
          in_child([] {
            void* const p = make(1, 100);
            EXPECT_EQ(check_and_free(p, 1, 100), 0u);
          });
        }
        done = true;
      } else if (t == 3) {
        for (unsigned i = 0; !done; ++i) {
          const std::string& request = requests[i % std::size(requests)];
          ask(i % 2 == 0 ? one : other, i % 7 == 0 ? request.substr(0, 9) + "\r\n\r\n" : request);
        }
      } else {
        come_and_go(t, done);
      }
    });
    EXPECT_TRUE(std::filesystem::is_empty(folder_));
    EXPECT_EQ(loft_option_set("profile", "off"), 0);
    const loft_stats_t s = stats_at_rest();
    expect_identity(s);
    EXPECT_EQ(s.allocated_bytes, 0u);
  });
}

}  // namespace
}  // namespace storm
