// A function of the program that is told what loft says, beside threads that have much to say.
#include "files/handler.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/text.h"
#include "os/fault.h"

namespace loft {
namespace {

// Each handler is set with its own of these, and with no other.
struct Told {
  std::atomic<size_t> own{0};
  std::atomic<size_t> others{0};
};
Told first;
Told second;

void tell(Told& own, void* closure) { ++(closure == &own ? own.own : own.others); }
void to_first(const char*, size_t, void* closure) { tell(first, closure); }
void to_second(const char*, size_t, void* closure) { tell(second, closure); }

TEST(Handler, AndItsClosureBelongTogether) {
  constexpr size_t kThreads = 3;
  constexpr size_t kLines = 20'000;
  files::Handler handler;
  handler.set(to_first, &first);
  std::atomic<size_t> untold{0};
  std::atomic<size_t> at_work{kThreads};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (size_t line = 0; line < kLines; ++line) untold += handler.call("line\n", 5) ? 0 : 1;
      --at_work;
    });
  }
  while (at_work != 0) {
    handler.set(to_second, &second);
    handler.set(to_first, &first);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(first.others + second.others, 0u);
  EXPECT_EQ(first.own + second.own + untold, kThreads * kLines);
  EXPECT_TRUE(handler.is_set());
}

TEST(Handler, IsNotCalledFromItself) {
  static files::Handler handler;
  static bool again = true;
  handler.set([](const char*, size_t, void*) { again = handler.call("", 0); }, nullptr);
  EXPECT_FALSE(files::in_a_handler());
  EXPECT_TRUE(handler.call("", 0));
  EXPECT_FALSE(again);
  EXPECT_FALSE(files::in_a_handler());
}

// Many children, some of which are made while the other thread sets a handler.
TEST(Handler, IsSetInTheChildOfAForkInTheMiddleOfAChange) {
  files::Handler handler;
  std::atomic<bool> ends{false};
  std::thread setter([&] {
    while (!ends) handler.set(to_first, &first);
  });
  int unset = 0;
  for (int i = 0; i < 200; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      handler.set(to_second, &second);
      _exit(handler.is_set() && handler.call("", 0) && second.own != 0 ? 0 : 1);
    }
    int status = 0;
    unset += waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
  }
  ends = true;
  setter.join();
  EXPECT_EQ(unset, 0);
}

TEST(Handler, HasTheLineWithItsEnd) {
  static std::string heard;
  files::set_message_handler(
      [](const char* text, size_t bytes, void*) {
        heard.assign(text, bytes);
        heard += text[bytes] == '\0' ? '.' : '?';
      },
      nullptr);
  os::report(Text() << "a line");
  EXPECT_EQ(heard, "loft: a line\n.");
  // As long as a line can be.
  Text longest;
  for (size_t i = 0; i < Text::kCapacity + 9; ++i) longest << "x";
  os::report(longest);
  EXPECT_EQ(heard.size(), 6 + longest.size() + 1 + 1);
  EXPECT_EQ(heard.substr(heard.size() - 2), "\n.");
  files::set_message_handler(nullptr, nullptr);
}

}  // namespace
}  // namespace loft
