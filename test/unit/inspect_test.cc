// Stacks as they are captured, frame by frame beside those of glibc's backtrace().
#include <alloca.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/macros.h"
#include "files/inspect.h"
#include "os/os.h"

namespace loft {
namespace {

// Small enough for a signal's stack. Nothing here allocates.
struct Stacks {
  static constexpr size_t kMost = 400;

  uintptr_t ours[kMost];
  size_t count = 0;
  void* theirs[kMost];
  size_t their_count = 0;

  // The first frame of both is this function's own, at different calls.
  LOFT_NOINLINE void take() {
    count = inspect::capture(ours, kMost);
    their_count = static_cast<size_t>(backtrace(theirs, kMost));
  }

  // How many frames are in front of the caller of `take`: its own, and what loft's capture and a
  // sanitizer's backtrace() leave there.
  struct Fronts {
    size_t ours;
    size_t theirs;
  };
  Fronts fronts() const {
    for (size_t sum = 2; sum < 8; ++sum) {
      for (size_t i = 1; i < sum; ++i) {
        const size_t k = sum - i;
        const bool there = i < count && k < their_count;
        if (there && ours[i] == reinterpret_cast<uintptr_t>(theirs[k])) return {i, k};
      }
    }
    return {count, their_count};
  }
  bool same() const {
    const auto [i, k] = fronts();
    if (i == count || count - i != their_count - k) return false;
    return std::equal(ours + i, ours + count, theirs + k, [](uintptr_t a, const void* b) {
      return a == reinterpret_cast<uintptr_t>(b);
    });
  }
};

Stacks stacks;  // of the test that runs

// Without a debug form of malloc or a handler in between, both end at the same frame.
void expect_same(const Stacks& taken) {
  EXPECT_TRUE(taken.same()) << taken.count << " and " << taken.their_count;
  EXPECT_GT(taken.count, 3U);
}

// Behind a call at a function's end, which compilers turn into a jump otherwise.
void after_call() { __asm__ volatile("" : : : "memory"); }
// The compiler must assume that all of it is used.
void use(void* memory) { __asm__ volatile("" : : "r"(memory) : "memory"); }

class Inspect : public testing::Test {
 protected:
  void SetUp() override {
    inspect::open();
    // Its first call loads a library.
    stacks.take();
    stacks = Stacks();
  }
};

// ---- Functions of all kinds ----

TEST_F(Inspect, AFunctionThatCalls) {
  stacks.take();
  expect_same(stacks);
}

TEST_F(Inspect, OpeningAgainChangesNothing) {
  inspect::open();
  stacks.take();
  expect_same(stacks);
}

LOFT_NOINLINE size_t recurse(size_t depth, size_t sum) {
  if (depth == 0) {
    stacks.take();
    return sum;
  }
  const size_t result = recurse(depth - 1, sum + depth);
  after_call();
  return result;
}

TEST_F(Inspect, DeepRecursion) {
  EXPECT_EQ(recurse(200, 0), 200U * 201 / 2);
  expect_same(stacks);
  EXPECT_GT(stacks.count, 200U);
}

TEST_F(Inspect, WritesNoMoreThanAskedFor) {
  uintptr_t frames[8];
  for (const size_t most : {0, 1, 2, 7}) {
    std::fill(std::begin(frames), std::end(frames), uintptr_t{1});
    EXPECT_EQ(inspect::capture(frames, most), most);
    for (size_t i = 0; i < std::size(frames); ++i) EXPECT_EQ(frames[i] == 1, i >= most) << i;
  }
}

TEST_F(Inspect, ErrnoStays) {
  uintptr_t frames[64];
  errno = EDOM;
  EXPECT_GT(inspect::capture(frames, std::size(frames)), 3U);
  EXPECT_EQ(errno, EDOM);
}

LOFT_NOINLINE void with_variable_frame(size_t bytes) {
  void* const memory = alloca(bytes);
  use(memory);
  stacks.take();
  use(memory);
}

TEST_F(Inspect, AFrameOfVariableLength) {
  for (const size_t bytes : {1, 100, 5000, 100'000}) {
    with_variable_frame(bytes);
    expect_same(stacks);
  }
}

LOFT_NOINLINE void with_aligned_frame(size_t bytes) {
  alignas(256) char aligned[256];
  use(aligned);
  with_variable_frame(bytes);
  use(aligned);
}

TEST_F(Inspect, AFrameThatIsAlignedAnew) {
  with_aligned_frame(10);
  expect_same(stacks);
}

LOFT_NOINLINE void with_long_frame() {
  char frame[300'000];
  use(frame);
  stacks.take();
  use(frame);
}

TEST_F(Inspect, AFrameOfManyPages) {
  with_long_frame();
  expect_same(stacks);
}

TEST_F(Inspect, LambdasAndTemplates) {
  int seen = 0;
  const std::function<void()> inner = [&seen] {
    stacks.take();
    ++seen;
  };
  const std::function<void(const std::function<void()>&)> outer = [&](const auto& call) {
    call();
    ++seen;
  };
  outer(inner);
  EXPECT_EQ(seen, 2);
  expect_same(stacks);
}

struct Raised {
  ~Raised() { stacks.take(); }
};

TEST_F(Inspect, ADestructorThatAnExceptionRuns) {
  bool caught = false;
  try {
    const Raised raised;
    throw 1;
  } catch (int) {
    caught = true;
  }
  EXPECT_TRUE(caught);
  expect_same(stacks);
}

TEST_F(Inspect, ACallbackOfTheCLibrary) {
  std::array<int, 20> numbers = {3, 1, 2};
  qsort(numbers.data(), numbers.size(), sizeof(int), [](const void* a, const void* b) {
    stacks.take();
    return *static_cast<const int*>(a) - *static_cast<const int*>(b);
  });
  expect_same(stacks);
}

// ---- Stacks of all kinds ----

TEST_F(Inspect, Threads) {
  std::vector<std::thread> threads;
  std::array<bool, 4> same{};
  for (bool& mine : same) {
    threads.emplace_back([&mine] {
      Stacks own;
      mine = true;
      for (int i = 0; i < 200; ++i) {
        own.take();
        mine = mine && own.same();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const bool mine : same) EXPECT_TRUE(mine);
}

void take_in_handler(int) { stacks.take(); }

void handle(int number, void (*handler)(int), int flags) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  ASSERT_EQ(sigaction(number, &action, nullptr), 0);
}

TEST_F(Inspect, ASignalsHandler) {
  handle(SIGUSR1, take_in_handler, 0);
  raise(SIGUSR1);
  expect_same(stacks);
}

TEST_F(Inspect, ASignalsHandlerOnItsOwnStack) {
  // Without mappings around it.
  const size_t page = os::page_size();
  const size_t bytes = 32 * page;
  auto* const at = static_cast<char*>(os::reserve(bytes + 2 * page));
  ASSERT_TRUE(os::commit(at + page, bytes));
  const stack_t own = {at + page, 0, bytes};
  ASSERT_EQ(sigaltstack(&own, nullptr), 0);
  handle(SIGUSR1, take_in_handler, SA_ONSTACK);
  raise(SIGUSR1);
  expect_same(stacks);
  const stack_t none = {nullptr, SS_DISABLE, 0};
  ASSERT_EQ(sigaltstack(&none, nullptr), 0);
  os::unmap(at, bytes + 2 * page);
}

// A stack of the program's own, between pages that cannot be read.
class Coroutine {
 public:
  explicit Coroutine(void (*work)()) {
    at_ = static_cast<char*>(os::reserve(all_bytes()));
    EXPECT_TRUE(os::commit(at_ + os::page_size(), kBytes));
    EXPECT_EQ(getcontext(&own_), 0);
    own_.uc_stack.ss_sp = at_ + os::page_size();
    own_.uc_stack.ss_size = kBytes;
    own_.uc_link = &caller_;
    makecontext(&own_, work, 0);
  }
  ~Coroutine() { os::unmap(at_, all_bytes()); }
  Coroutine(const Coroutine&) = delete;
  Coroutine& operator=(const Coroutine&) = delete;

  void run() { EXPECT_EQ(swapcontext(&caller_, &own_), 0); }

 private:
  static constexpr size_t kBytes = 256 * 1024;

  static size_t all_bytes() { return kBytes + 2 * os::page_size(); }

  char* at_ = nullptr;
  ucontext_t own_;
  ucontext_t caller_;
};

TEST_F(Inspect, ACoroutine) {
  Coroutine coroutine([] {
    recurse(50, 0);
    after_call();
  });
  coroutine.run();
  expect_same(stacks);
  EXPECT_GT(stacks.count, 50U);
}

// ---- Libraries that come and go ----

void take_for(void* closure) { static_cast<Stacks*>(closure)->take(); }

TEST_F(Inspect, ALibraryAtTheAddressesOfAnother) {
  const char* const libraries[] = {LOFT_SMALL_FRAME, LOFT_LARGE_FRAME};
  std::vector<void*> places;
  for (int i = 0; i < 8; ++i) {
    void* const library = dlopen(libraries[i % 2], RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    auto* const pass_on =
        reinterpret_cast<size_t (*)(void (*)(void*), void*)>(dlsym(library, "pass_on"));
    ASSERT_NE(pass_on, nullptr);
    places.push_back(reinterpret_cast<void*>(pass_on));
    const size_t frame = pass_on(take_for, &stacks);
    expect_same(stacks);
    EXPECT_EQ(frame > 80, i % 2 == 1);
    dlclose(library);
  }
  // Where the system puts them elsewhere, there was nothing to be seen.
  RecordProperty("places", static_cast<int>(std::count(places.begin(), places.end(), places[0])));
}

// Debian's GCC 12 reads the table of a library that has none.
TEST_F(Inspect, ALibraryWithoutATableEndsTheStack) {
  void* const library = dlopen(LOFT_NO_TABLE, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  auto* const pass_on =
      reinterpret_cast<size_t (*)(void (*)(void*), void*)>(dlsym(library, "pass_on"));
  ASSERT_NE(pass_on, nullptr);
  pass_on([](void*) { stacks.count = inspect::capture(stacks.ours, Stacks::kMost); }, nullptr);
  ASSERT_GE(stacks.count, 2U);
  EXPECT_LT(stacks.ours[stacks.count - 1] - reinterpret_cast<uintptr_t>(pass_on), 200U);
  dlclose(library);
}

// ---- x86-64: code without frame information, and none ----

#if defined(__x86_64__)

// Code made at run time, of which no table knows.
class MadeCode {
 public:
  explicit MadeCode(const std::string& bytes) {
    at_ =
        mmap(nullptr, os::page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(at_, MAP_FAILED);
    // Not at the page's beginning: a sanitizer looks before a function that is called.
    bytes.copy(static_cast<char*>(at_) + kFrom, bytes.size());
    EXPECT_EQ(mprotect(at_, os::page_size(), PROT_READ | PROT_EXEC), 0);
  }
  ~MadeCode() { munmap(at_, os::page_size()); }
  MadeCode(const MadeCode&) = delete;
  MadeCode& operator=(const MadeCode&) = delete;

  void call(void (*next)(void*), void* closure, uintptr_t frame) const {
    auto* const code = reinterpret_cast<void (*)(void (*)(void*), void*, uintptr_t)>(
        static_cast<char*>(at_) + kFrom);
    code(next, closure, frame);
    after_call();
  }
  void (*entry() const)(void*) {
    return reinterpret_cast<void (*)(void*)>(static_cast<char*>(at_) + kFrom);
  }
  bool covers(uintptr_t pc) const {
    return pc - reinterpret_cast<uintptr_t>(at_) < os::page_size();
  }

 private:
  static constexpr size_t kFrom = 64;

  void* at_;
};

size_t made_frame(const MadeCode& code) {
  size_t i = 0;
  while (i < stacks.count && !code.covers(stacks.ours[i])) ++i;
  return i;
}

// mov rax, rdi; mov rdi, rsi; push rbp; mov rbp, rdx; call rax; pop rbp; ret
constexpr char kSetsFrame[] = "\x48\x89\xf8\x48\x89\xf7\x55\x48\x89\xd5\xff\xd0\x5d\xc3";

// The stack ends there, whatever the frame pointer is: its own, another function's, or none. Memory
// that is not the thread's own may be gone by the time it is read.
TEST_F(Inspect, CodeWithoutInformationEndsTheStack) {
  const MadeCode code(kSetsFrame);
  uintptr_t record[] = {0, reinterpret_cast<uintptr_t>(&take_for)};
  const auto frame = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  for (const uintptr_t at : {frame, reinterpret_cast<uintptr_t>(record), frame + os::page_size(),
                             uintptr_t{0}, uintptr_t{8}, ~uintptr_t{7}}) {
    stacks = Stacks();
    code.call(take_for, &stacks, at);
    EXPECT_EQ(made_frame(code), stacks.count - 1) << at;
    EXPECT_GE(stacks.count, 2U);
  }
}

TEST_F(Inspect, CodeThatOnlyReturns) {
  struct Next {
    void (*function)(void*);
    void* closure;
  } next = {take_for, &stacks};
  const MadeCode outer(kSetsFrame);
  // sub rsp, 8; mov rax, [rdi]; mov rdi, [rdi + 8]; call rax; add rsp, 8; ret
  const MadeCode inner("\x48\x83\xec\x08\x48\x8b\x07\x48\x8b\x7f\x08\xff\xd0\x48\x83\xc4\x08\xc3");
  outer.call(inner.entry(), &next, 1);
  const size_t made = made_frame(inner);
  // Its caller is found, and nothing further out.
  ASSERT_EQ(made + 2, stacks.count);
  EXPECT_TRUE(outer.covers(stacks.ours[made + 1]));
}

// The handler returns as the function would that was called.
void return_from_nowhere(int, siginfo_t*, void* context) {
  stacks.count = inspect::capture(stacks.ours, Stacks::kMost);
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  registers[REG_RIP] = *reinterpret_cast<greg_t*>(registers[REG_RSP]);
  registers[REG_RSP] += sizeof(greg_t);
}

TEST_F(Inspect, ACallOfWhatIsNoCodeEndsTheStack) {
  struct sigaction action = {};
  action.sa_sigaction = return_from_nowhere;
  action.sa_flags = SA_SIGINFO;
  struct sigaction before = {};
  ASSERT_EQ(sigaction(SIGSEGV, &action, &before), 0);
  // Behind a page that can be read: a sanitizer looks before a function that is called.
  const size_t page = os::page_size();
  auto* const pages = static_cast<char*>(os::reserve(2 * page));
  ASSERT_TRUE(os::commit(pages, page));
  char* const nowhere = pages + page;
  reinterpret_cast<void (*)()>(nowhere)();
  ASSERT_EQ(sigaction(SIGSEGV, &before, nullptr), 0);
  // Of the handler, of what it returns to, and where the fault was.
  EXPECT_EQ(stacks.ours[stacks.count - 1], reinterpret_cast<uintptr_t>(nowhere));
  EXPECT_GE(stacks.count, 3U);
  os::unmap(pages, 2 * page);
}

void skip_trap(int, siginfo_t*, void* context) {
  stacks.take();
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP] += 2;
}

// The first instruction of a function, and the last of one that does not return.
LOFT_NOINLINE void trap() { __asm__ volatile("ud2"); }

TEST_F(Inspect, AnInstructionThatASignalInterrupts) {
  struct sigaction action = {};
  action.sa_sigaction = skip_trap;
  action.sa_flags = SA_SIGINFO;
  ASSERT_EQ(sigaction(SIGILL, &action, nullptr), 0);
  trap();
  expect_same(stacks);
}

#endif

}  // namespace
}  // namespace loft
