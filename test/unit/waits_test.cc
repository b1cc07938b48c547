// What is known of a thread that waits: above all, never that it does so by itself while a signal
// handler is running on it.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

#include "os/os.h"

namespace loft {
namespace {

thread_local char end_of_stack;

// A thread that waits for a byte in a pipe, where `run` says; its handlers may wait there, too.
class Waiter {
 public:
  explicit Waiter(std::function<void()> run, pthread_attr_t* attributes = nullptr)
      : run_(std::move(run)) {
    EXPECT_EQ(pipe(pipe_), 0);
    current = this;
    const auto start = [](void* self) -> void* {
      auto& me = *static_cast<Waiter*>(self);
      me.end_of_stack_ = &end_of_stack;
      me.number_ = os::thread_number();
      me.run_();
      return nullptr;
    };
    EXPECT_EQ(pthread_create(&thread_, attributes, start, this), 0);
  }
  ~Waiter() {
    stop_ = true;
    for (int i = 0; i < 8; ++i) EXPECT_EQ(write(pipe_[1], "", 1), 1);
    pthread_join(thread_, nullptr);
    close(pipe_[0]);
    close(pipe_[1]);
  }
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  void wait() const {
    char byte = 0;
    while (read(pipe_[0], &byte, 1) != 1) {
    }
  }
  // In no system call.
  void spin() const {
    while (!stop_.load(std::memory_order_relaxed)) {
    }
  }
  void signal(int number) {
    while (number_ == 0) std::this_thread::yield();
    // Where the thread is after this, if it is to spin.
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    pthread_kill(thread_, number);
  }
  // Once it waits: whether by itself.
  bool by_itself() const {
    while (number_ == 0 || !os::thread_waits(number_)) std::this_thread::yield();
    return os::thread_waits_by_itself(number_, end_of_stack_);
  }

  // It may wait for something else first, and go on between two looks. Or the test never ends.
  void await() const {
    while (!by_itself()) std::this_thread::yield();
  }

  static std::atomic<Waiter*> current;

 private:
  std::function<void()> run_;
  int pipe_[2] = {};
  pthread_t thread_{};
  const void* end_of_stack_ = nullptr;
  std::atomic<int> number_{0};
  std::atomic<bool> stop_{false};
};
std::atomic<Waiter*> Waiter::current{nullptr};

class WaitsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!os::kSeesWaitingThreads) GTEST_SKIP() << "the thread sanitizer calls handlers itself";
  }
  // A handler that waits.
  static void handle(int flags) {
    struct sigaction action = {};
    action.sa_handler = [](int) { Waiter::current.load()->wait(); };
    action.sa_flags = flags | SA_RESTART;
    ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
  }
  void TearDown() override { ::signal(SIGUSR1, SIG_DFL); }
};

void wait_in_current() { Waiter::current.load()->wait(); }
void spin_in_current() { Waiter::current.load()->spin(); }

TEST_F(WaitsTest, ASystemCallOfItsOwn) {
  Waiter waiter(wait_in_current);
  if (os::sees_system_calls()) {
    waiter.await();
  } else {
    EXPECT_FALSE(waiter.by_itself());
  }
  EXPECT_FALSE(os::thread_waits_by_itself(os::thread_number(), &end_of_stack)) << "it runs";
}

TEST_F(WaitsTest, ThreadsThatAreNone) {
  EXPECT_FALSE(os::thread_waits(1 << 30));
  EXPECT_FALSE(os::thread_waits_by_itself(1 << 30, &end_of_stack));
}

TEST_F(WaitsTest, AHandlerThatCutSomethingShort) {
  handle(0);
  Waiter waiter(spin_in_current);
  waiter.signal(SIGUSR1);
  EXPECT_FALSE(waiter.by_itself());
}

TEST_F(WaitsTest, AHandlerThatIsNoneAnyMore) {
  handle(SA_RESETHAND | SA_NODEFER);
  Waiter waiter(spin_in_current);
  waiter.signal(SIGUSR1);
  EXPECT_FALSE(waiter.by_itself());
}

TEST_F(WaitsTest, AHandlerInASystemCall) {
  if (!os::sees_system_calls()) GTEST_SKIP() << "the system does not tell";
  handle(0);
  Waiter waiter(wait_in_current);
  waiter.await();
  waiter.signal(SIGUSR1);
  // It wakes first, and waits again. Or the test never ends.
  while (waiter.by_itself()) std::this_thread::yield();
}

constexpr size_t kAlternate = 24 * 1024;

void spin_with_alternate(void* stack) {
  const stack_t alternate = {stack, 0, kAlternate};
  EXPECT_EQ(sigaltstack(&alternate, nullptr), 0);
  spin_in_current();
  const stack_t none = {nullptr, SS_DISABLE, 0};
  EXPECT_EQ(sigaltstack(&none, nullptr), 0);
}

TEST_F(WaitsTest, AHandlerOnAStackOfItsOwn) {
  handle(SA_ONSTACK);
  alignas(16) static char anywhere[kAlternate];
  {
    Waiter waiter([] { spin_with_alternate(anywhere); });
    waiter.signal(SIGUSR1);
    EXPECT_FALSE(waiter.by_itself()) << "elsewhere";
  }
  {
    Waiter waiter([] {
      alignas(16) char within[kAlternate];
      spin_with_alternate(within);
    });
    waiter.signal(SIGUSR1);
    EXPECT_FALSE(waiter.by_itself()) << "within the other";
  }
}

TEST_F(WaitsTest, AHandlerOnAStackJustBelow) {
  handle(SA_ONSTACK);
  constexpr size_t kStack = 256 * 1024;
  void* memory = mmap(nullptr, kAlternate + kStack, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const below = static_cast<char*>(memory);
  for (const size_t stack : {size_t{32} * 1024, kStack}) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    ASSERT_EQ(pthread_attr_setstack(&attributes, below + kAlternate, stack), 0);
    {
      Waiter waiter([&] { spin_with_alternate(below); }, &attributes);
      waiter.signal(SIGUSR1);
      EXPECT_FALSE(waiter.by_itself()) << stack;
    }
    pthread_attr_destroy(&attributes);
  }
  munmap(memory, kAlternate + kStack);
}

}  // namespace
}  // namespace loft
