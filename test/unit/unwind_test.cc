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
#include "os/os.h"
#include "refused_call.h"
#include "unit/support.h"
#include "unwind/stack.h"
#include "unwind/unwind.h"

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
    count = unwind::capture(ours, kMost);
    their_count = static_cast<size_t>(backtrace(theirs, kMost));
  }

  // Where theirs have our second frame: a sanitizer puts a function of its own before backtrace().
  size_t shift() const {
    size_t i = 1;
    while (i < std::min<size_t>(their_count, 4) &&
           ours[1] != reinterpret_cast<uintptr_t>(theirs[i])) {
      ++i;
    }
    return i - 1;
  }
  // Whether no frame differs as far as both go. Where they stop for want of frame information, ours
  // may go on.
  bool agree() const {
    const size_t from = shift();
    for (size_t i = 1; i < std::min(count, their_count - from); ++i) {
      if (ours[i] != reinterpret_cast<uintptr_t>(theirs[i + from])) return false;
    }
    return count > 1;
  }
  bool same() const { return agree() && count == their_count - shift(); }
};

Stacks stacks;  // of the test that runs

// Without a debug form of malloc or a handler in between, both end at the same frame.
void expect_same(const Stacks& taken) {
  EXPECT_TRUE(taken.agree());
  EXPECT_EQ(taken.count, taken.their_count - taken.shift());
  EXPECT_GT(taken.count, 3U);
}

// Behind a call at a function's end, which compilers turn into a jump otherwise.
void after_call() { __asm__ volatile("" : : : "memory"); }
// The compiler must assume that all of it is used.
void use(void* memory) { __asm__ volatile("" : : "r"(memory) : "memory"); }

class Unwind : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(unwind::prepare());
    // Its first call loads a library.
    stacks.take();
    stacks = Stacks();
  }
};

// ---- Functions of all kinds ----

TEST_F(Unwind, AFunctionThatCalls) {
  stacks.take();
  expect_same(stacks);
}

TEST_F(Unwind, PreparingAgainChangesNothing) {
  EXPECT_TRUE(unwind::prepare());
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

TEST_F(Unwind, DeepRecursion) {
  EXPECT_EQ(recurse(200, 0), 200U * 201 / 2);
  expect_same(stacks);
  EXPECT_GT(stacks.count, 200U);
}

TEST_F(Unwind, WritesNoMoreThanAskedFor) {
  uintptr_t frames[8];
  for (const size_t most : {0, 1, 2, 7}) {
    std::fill(std::begin(frames), std::end(frames), uintptr_t{1});
    EXPECT_EQ(unwind::capture(frames, most), most);
    for (size_t i = 0; i < std::size(frames); ++i) EXPECT_EQ(frames[i] == 1, i >= most) << i;
  }
}

TEST_F(Unwind, ErrnoStays) {
  uintptr_t frames[64];
  errno = EDOM;
  EXPECT_GT(unwind::capture(frames, std::size(frames)), 3U);
  EXPECT_EQ(errno, EDOM);
}

LOFT_NOINLINE void with_variable_frame(size_t bytes) {
  void* const memory = alloca(bytes);
  use(memory);
  stacks.take();
  use(memory);
}

TEST_F(Unwind, AFrameOfVariableLength) {
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

TEST_F(Unwind, AFrameThatIsAlignedAnew) {
  with_aligned_frame(10);
  expect_same(stacks);
}

LOFT_NOINLINE void with_long_frame() {
  char frame[300'000];
  use(frame);
  stacks.take();
  use(frame);
}

TEST_F(Unwind, AFrameOfManyPages) {
  with_long_frame();
  expect_same(stacks);
}

TEST_F(Unwind, LambdasAndTemplates) {
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

TEST_F(Unwind, ADestructorThatAnExceptionRuns) {
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

TEST_F(Unwind, ACallbackOfTheCLibrary) {
  std::array<int, 20> numbers = {3, 1, 2};
  qsort(numbers.data(), numbers.size(), sizeof(int), [](const void* a, const void* b) {
    stacks.take();
    return *static_cast<const int*>(a) - *static_cast<const int*>(b);
  });
  expect_same(stacks);
}

// ---- Stacks of all kinds ----

TEST_F(Unwind, Threads) {
  // Each several times, so that they write the rules beside each other.
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

TEST_F(Unwind, ASignalsHandler) {
  handle(SIGUSR1, take_in_handler, 0);
  raise(SIGUSR1);
  expect_same(stacks);
}

TEST_F(Unwind, ASignalsHandlerOnItsOwnStack) {
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

  uintptr_t end() const { return reinterpret_cast<uintptr_t>(at_) + os::page_size() + kBytes; }

 private:
  static constexpr size_t kBytes = 256 * 1024;

  // A page in front and two behind that cannot be read: a test asks for what lies in both.
  static size_t all_bytes() { return kBytes + 3 * os::page_size(); }

  char* at_ = nullptr;
  ucontext_t own_;
  ucontext_t caller_;
};

TEST_F(Unwind, ACoroutine) {
  Coroutine coroutine([] {
    recurse(50, 0);
    after_call();
  });
  coroutine.run();
  expect_same(stacks);
  EXPECT_GT(stacks.count, 50U);
}

// ---- What can be read ----

TEST_F(Unwind, PagesThatCannotBeReadAreNotRead) {
  const size_t page = os::page_size();
  auto* const at = static_cast<char*>(os::reserve(3 * page));
  ASSERT_TRUE(os::commit(at + page, page));
  const auto from = reinterpret_cast<uintptr_t>(at);
  unwind::Stack stack(from + page);
  uintptr_t word = 1;
  EXPECT_FALSE(stack.read(from + page - sizeof word, &word));
  EXPECT_FALSE(stack.read(from + 2 * page, &word));
  EXPECT_FALSE(stack.read(from + page + 1, &word)) << "not aligned";
  EXPECT_EQ(word, 1U);
  EXPECT_TRUE(stack.read(from + page, &word));
  EXPECT_EQ(word, 0U);
  EXPECT_TRUE(stack.read(from + 2 * page - sizeof word, &word));
  for (const uintptr_t nowhere : {uintptr_t{0}, uintptr_t{64}, ~uintptr_t{7}}) {
    EXPECT_FALSE(stack.read(nowhere, &word));
  }
  // And where it has gone astray, it still knows what can be read.
  EXPECT_TRUE(stack.read(from + page, &word));
  os::unmap(at, 3 * page);
}

TEST_F(Unwind, OfNothingIsKnownWhatIsReadable) {
  unwind::Stack nothing;
  uintptr_t word = 0;
  EXPECT_FALSE(nothing.read(0, &word));
  uintptr_t here = 5;
  EXPECT_TRUE(nothing.read(reinterpret_cast<uintptr_t>(&here), &word));
  EXPECT_EQ(word, 5U);
}

TEST_F(Unwind, APageIsAskedAboutOnce) {
  const size_t page = os::page_size();
  auto* const at = static_cast<char*>(os::reserve(4 * page));
  ASSERT_TRUE(os::commit(at, 4 * page));
  const auto from = reinterpret_cast<uintptr_t>(at);
  unwind::Stack stack(from);
  uintptr_t word = 1;
  for (uintptr_t in = from; in < from + 4 * page; in += sizeof word) {
    ASSERT_TRUE(stack.read(in, &word));
  }
  // What has been asked about is not asked about again.
  ASSERT_EQ(mprotect(at + 3 * page, page, PROT_READ), 0);
  EXPECT_TRUE(stack.read(from, &word));
  EXPECT_TRUE(stack.read(from + 3 * page, &word));
  os::unmap(at, 4 * page);
}

// Whether it passes in the child of a fork, after a filter of system calls refuses that one.
template <class Work>
bool passes_without_call(unsigned call, Work work) {
  return test::child_passes([&] { return test::refuse_call(call) && work(); });
}

TEST_F(Unwind, WhereTheSystemRefusesToAnswerOnePageIsRead) {
  EXPECT_TRUE(passes_without_call(SYS_rt_sigprocmask, [] {
    uintptr_t here = 1;
    uintptr_t frames[200];
    // The frame of many pages is not left.
    std::array<char, 100'000> frame;
    use(frame.data());
    const size_t count = unwind::capture(frames, std::size(frames));
    use(frame.data());
    return count <= 2 && !unwind::is_readable(reinterpret_cast<uintptr_t>(&here)) &&
           !unwind::can_tell_readable();
  }));
}

// ---- Libraries that come and go ----

void take_for(void* closure) { static_cast<Stacks*>(closure)->take(); }

TEST_F(Unwind, ALibraryAtTheAddressesOfAnother) {
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
    // Once more, by the rule that is kept now.
    pass_on(take_for, &stacks);
    expect_same(stacks);
    dlclose(library);
  }
  // Where the system puts them elsewhere, there was nothing to be seen.
  RecordProperty("places", static_cast<int>(std::count(places.begin(), places.end(), places[0])));
}

// ---- x86-64: code without frame information, and every instruction ----

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
TEST_F(Unwind, CodeWithoutInformationEndsTheStack) {
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

TEST_F(Unwind, CodeThatOnlyReturns) {
  struct Next {
    void (*function)(void*);
    void* closure;
  } next = {take_for, &stacks};
  const MadeCode outer(kSetsFrame);
  // In all positions within a word: the walk reads words.
  for (size_t i = 0; i < sizeof(uintptr_t); ++i) {
    stacks = Stacks();
    // sub rsp, 8; mov rax, [rdi]; mov rdi, [rdi + 8]; call rax; add rsp, 8; ret
    const MadeCode inner(
        std::string(i, '\x90') +
        "\x48\x83\xec\x08\x48\x8b\x07\x48\x8b\x7f\x08\xff\xd0\x48\x83\xc4\x08\xc3");
    outer.call(inner.entry(), &next, 1);
    const size_t made = made_frame(inner);
    // Its caller is found, and nothing further out.
    ASSERT_EQ(made + 2, stacks.count) << i;
    EXPECT_TRUE(outer.covers(stacks.ours[made + 1])) << i;
  }
}

void skip_trap(int, siginfo_t*, void* context) {
  stacks.take();
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP] += 2;
}

// The first instruction of a function, and the last of one that does not return.
LOFT_NOINLINE void trap() { __asm__ volatile("ud2"); }

TEST_F(Unwind, AnInstructionThatASignalInterrupts) {
  struct sigaction action = {};
  action.sa_sigaction = skip_trap;
  action.sa_flags = SA_SIGINFO;
  ASSERT_EQ(sigaction(SIGILL, &action, nullptr), 0);
  trap();
  expect_same(stacks);
}

#if !defined(LOFT_THREAD_SANITIZER)

// The processor's trap flag stops the program after each instruction.
size_t steps, shorter_steps, different_steps;
uintptr_t first_different;

void compare_step(int, siginfo_t*, void* context) {
  ++steps;
  stacks.take();
  if (stacks.agree()) {
    if (stacks.count < stacks.their_count - stacks.shift()) ++shorter_steps;
    return;
  }
  if (different_steps++ == 0) {
    first_different =
        static_cast<uintptr_t>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
  }
}

extern "C" void unwind_test_trap_on();
extern "C" void unwind_test_trap_off();
// With frame information for each of their own instructions.
__asm__(R"(
  .text
  .type unwind_test_trap_on, @function
unwind_test_trap_on:
  .cfi_startproc
  pushfq
  .cfi_adjust_cfa_offset 8
  orq $0x100, (%rsp)
  popfq
  .cfi_adjust_cfa_offset -8
  ret
  .cfi_endproc
  .type unwind_test_trap_off, @function
unwind_test_trap_off:
  .cfi_startproc
  pushfq
  .cfi_adjust_cfa_offset 8
  andq $~0x100, (%rsp)
  popfq
  .cfi_adjust_cfa_offset -8
  ret
  .cfi_endproc
)");

TEST_F(Unwind, EveryInstructionOfSomeWork) {
  struct sigaction action = {};
  action.sa_sigaction = compare_step;
  action.sa_flags = SA_SIGINFO;
  struct sigaction before = {};
  ASSERT_EQ(sigaction(SIGTRAP, &action, &before), 0);
  // Its calls go by the procedure linkage table, the first of each by the loader.
  void* const library = dlopen(LOFT_SMALL_FRAME, RTLD_LAZY | RTLD_LOCAL);
  ASSERT_NE(library, nullptr);
  auto* const pass_on =
      reinterpret_cast<size_t (*)(void (*)(void*), void*)>(dlsym(library, "pass_on"));
  std::array<int, 8> numbers = {3, 1, 2, 9, 4};
  char text[100];
  steps = shorter_steps = different_steps = 0;
  unwind_test_trap_on();
  qsort(numbers.data(), numbers.size(), sizeof(int), [](const void* a, const void* b) {
    return *static_cast<const int*>(a) - *static_cast<const int*>(b);
  });
  std::string made = "a text that is longer than its own buffer ";
  made += std::to_string(numbers[0]);
  snprintf(text, sizeof text, "%d %s %.3f", numbers[1], made.c_str(), 1.5);
  pass_on([](void* to) { *static_cast<int*>(to) = getppid(); }, numbers.data());
  unwind_test_trap_off();
  ASSERT_EQ(sigaction(SIGTRAP, &before, nullptr), 0);
  EXPECT_EQ(different_steps, 0U) << "of " << steps << ", the first at " << std::hex
                                 << first_different;
  EXPECT_EQ(shorter_steps, 0U);
  EXPECT_GT(steps, 1000U);
  dlclose(library);
}

#endif
#endif

}  // namespace
}  // namespace loft
