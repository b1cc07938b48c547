// Signals: of loft's own writes, where another thread takes what was sent to the process; and those
// that end it.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "control.h"
#include "files/last_signal.h"
#include "files/without_signals.h"

namespace {
bool all_pending = false;
}

// In libc's place: says of signals that they are pending, as if another thread took them
// afterwards.
extern "C" int sigpending(sigset_t* set) noexcept {
  return all_pending ? sigfillset(set) : sigemptyset(set);
}

namespace loft {
namespace {

TEST(WithoutSignals, WaitsForNoneThatAnotherThreadHasTaken) {
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, nullptr, &before);
  all_pending = true;
  {
    const files::WithoutSignals none;
  }
  all_pending = false;
  sigset_t after;
  pthread_sigmask(SIG_BLOCK, nullptr, &after);
  for (const int signal : {SIGPIPE, SIGXFSZ}) {
    EXPECT_EQ(sigismember(&after, signal), sigismember(&before, signal));
  }
}

TEST(WithoutSignals, TakesItsOwn) {
  all_pending = true;
  {
    const files::WithoutSignals none;
    raise(SIGPIPE);
    raise(SIGXFSZ);
  }
  all_pending = false;
  // Neither has ended the process.
}

// What the last hook says, and where it waits for the test.
int said[2];
int told[2];

void say(const char* text) { EXPECT_EQ(write(said[1], text, 1), 1); }

void hook() {
  say("(");
  char go = 0;
  EXPECT_EQ(read(told[0], &go, 1), 1);
  say(")");
}

class LastSignal : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(pipe(said), 0);
    ASSERT_EQ(pipe(told), 0);
  }
  void TearDown() override {
    for (const int file : {said[0], said[1], told[0], told[1]}) close(file);
  }

  static void* wait_for_signals(void*) {
    for (;;) pause();
  }

  // A process with two threads, of which either may get a signal.
  static pid_t start(void (*begin)()) {
    const pid_t child = fork();
    if (child != 0) return child;
    test::end_what_hangs();
    close(said[0]);
    signal(SIGTERM, SIG_DFL);
    files::on_termination(hook);
    pthread_t other;
    pthread_create(&other, nullptr, wait_for_signals, nullptr);
    begin();
    wait_for_signals(nullptr);
    return 0;
  }

  // How it ended; and all that it said, with what was read of it before.
  static int end(pid_t child, std::string& all) {
    close(said[1]);
    said[1] = -1;
    char next = 0;
    while (read(said[0], &next, 1) == 1) all += next;
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return status;
  }

  static std::string next() {
    char text[2] = {};
    EXPECT_EQ(read(said[0], text, 1), 1);
    return text;
  }
  static void go() { EXPECT_EQ(write(told[1], "g", 1), 1); }

  // Until a thread has taken what was sent to the process.
  static bool is_pending(pid_t child) {
    std::ifstream status("/proc/" + std::to_string(child) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("ShdPnd:")) return std::stoull(line.substr(7), nullptr, 16) != 0;
    }
    return false;
  }
};

TEST_F(LastSignal, ASecondOneWaitsForTheHook) {
  const pid_t child = start([] { say("r"); });
  std::string all = next();
  kill(child, SIGTERM);
  all += next();
  kill(child, SIGTERM);
  while (is_pending(child)) sched_yield();
  go();
  go();
  EXPECT_EQ(WTERMSIG(end(child, all)), SIGTERM);
  EXPECT_EQ(all, "r()");
}

TEST_F(LastSignal, DuringTheHookOfTheExitItWaitsToo) {
  const pid_t child = start([] { files::run_last(hook); });
  std::string all = next();
  kill(child, SIGTERM);
  while (is_pending(child)) sched_yield();
  go();
  EXPECT_EQ(WTERMSIG(end(child, all)), SIGTERM);
  EXPECT_EQ(all, "()");
}

TEST_F(LastSignal, TheThreadThatRunsTheHookTakesNone) {
  const pid_t child = start([] {
    signal(SIGUSR1, [](int) { say("s"); });
    files::run_last([] {
      say("(");
      raise(SIGUSR1);
      raise(SIGTERM);
      say(")");
    });
    say("e");
  });
  std::string all;
  EXPECT_EQ(WTERMSIG(end(child, all)), SIGTERM);
  // Both are pending, and the system chooses which is first.
  EXPECT_TRUE(all == "()" || all == "()s") << all;
}

TEST_F(LastSignal, TheChildOfAForkHasAnEndOfItsOwn) {
  const pid_t child = start([] {
    go();
    files::run_last(hook);
    files::run_last(hook);
    if (fork() == 0) {
      go();
      files::run_last(hook);
      _exit(0);
    }
    wait(nullptr);
    _exit(7);
  });
  std::string all;
  EXPECT_EQ(WEXITSTATUS(end(child, all)), 7);
  EXPECT_EQ(all, "()()");
}

}  // namespace
}  // namespace loft
