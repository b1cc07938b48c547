// Every operator new and delete, the new_handler loop, bad_alloc.
#include <gtest/gtest.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <memory>
#include <new>
#include <string>
#include <vector>

#include "loft/loft.h"
#include "surface/support.h"

namespace {

using std::align_val_t;
using std::nothrow;
using surface::aligned;
using surface::kImpossible;
using surface::opaque;

constexpr size_t kTooMuch = size_t{PTRDIFF_MAX};  // allowed by every check, there for none
constexpr size_t kSizes[] = {0, 1, 8, 16, 100, 1000, 1024, 1025, 10'000, 100'000, 2'000'000};
constexpr size_t kAlignments[] = {1, 8, 16, 32, 64, 256, 4096, 65536, size_t{1} << 20};

void expect_usable(void* p, size_t size, size_t alignment) {
  ASSERT_NE(p, nullptr);
  EXPECT_TRUE(aligned(p, alignment));
  EXPECT_GE(malloc_usable_size(p), size) << "new and malloc are one heap";
  memset(p, 0x77, size);
  opaque(p);
}

TEST(Operators, PlainAndSized) {
  for (const size_t n : kSizes) {
    void* p = ::operator new(opaque(n));
    expect_usable(p, n, 16);
    ::operator delete(p);
    p = ::operator new(opaque(n));
    expect_usable(p, n, 16);
    ::operator delete(p, n);
    p = ::operator new[](opaque(n));
    expect_usable(p, n, 16);
    ::operator delete[](p);
    p = ::operator new[](opaque(n));
    expect_usable(p, n, 16);
    ::operator delete[](p, n);
  }
}

TEST(Operators, Nothrow) {
  for (const size_t n : kSizes) {
    void* p = ::operator new(opaque(n), nothrow);
    expect_usable(p, n, 16);
    ::operator delete(p, nothrow);
    p = ::operator new[](opaque(n), nothrow);
    expect_usable(p, n, 16);
    ::operator delete[](p, nothrow);
  }
}

TEST(Operators, Aligned) {
  for (const size_t n : kSizes) {
    for (const size_t a : kAlignments) {
      const auto alignment = align_val_t{a};
      void* p = ::operator new(opaque(n), alignment);
      expect_usable(p, n, a);
      ::operator delete(p, alignment);
      p = ::operator new(opaque(n), alignment);
      expect_usable(p, n, a);
      ::operator delete(p, n, alignment);
      p = ::operator new[](opaque(n), alignment);
      expect_usable(p, n, a);
      ::operator delete[](p, alignment);
      p = ::operator new[](opaque(n), alignment);
      expect_usable(p, n, a);
      ::operator delete[](p, n, alignment);
    }
  }
}

TEST(Operators, AlignedNothrow) {
  for (const size_t n : kSizes) {
    for (const size_t a : kAlignments) {
      const auto alignment = align_val_t{a};
      void* p = ::operator new(opaque(n), alignment, nothrow);
      expect_usable(p, n, a);
      ::operator delete(p, alignment, nothrow);
      p = ::operator new[](opaque(n), alignment, nothrow);
      expect_usable(p, n, a);
      ::operator delete[](p, alignment, nothrow);
    }
  }
}

TEST(Operators, DeleteOfNull) {
  const auto null = [] { return opaque(static_cast<void*>(nullptr)); };
  const auto a = align_val_t{64};
  ::operator delete(null());
  ::operator delete[](null());
  ::operator delete(null(), size_t{8});
  ::operator delete[](null(), size_t{8});
  ::operator delete(null(), nothrow);
  ::operator delete[](null(), nothrow);
  ::operator delete(null(), a);
  ::operator delete[](null(), a);
  ::operator delete(null(), size_t{8}, a);
  ::operator delete[](null(), size_t{8}, a);
  ::operator delete(null(), a, nothrow);
  ::operator delete[](null(), a, nothrow);
}

TEST(Operators, ExpressionsReachThem) {
  struct alignas(256) Wide {
    char bytes[300];
  };
  const auto one = std::make_unique<Wide>();
  EXPECT_TRUE(aligned(one.get(), 256));
  const std::unique_ptr<Wide[]> many(new Wide[7]);
  EXPECT_TRUE(aligned(many.get(), 256));
  std::vector<std::string> strings;
  for (int i = 0; i < 1000; ++i) strings.emplace_back(static_cast<size_t>(i), 'x');
  for (size_t i = 0; i < strings.size(); ++i) EXPECT_EQ(strings[i].size(), i);
}

// ---- Out of memory
// ---------------------------------------------------------------------------------

TEST(OutOfMemory, ThrowsBadAlloc) {
  for (const size_t n : {kTooMuch, kImpossible[0], kImpossible[5]}) {
    EXPECT_THROW((void)::operator new(opaque(n)), std::bad_alloc);
    EXPECT_THROW((void)::operator new[](opaque(n)), std::bad_alloc);
    EXPECT_THROW((void)::operator new(opaque(n), align_val_t{64}), std::bad_alloc);
    EXPECT_THROW((void)::operator new[](opaque(n), align_val_t{64}), std::bad_alloc);
  }
}

TEST(OutOfMemory, NothrowReturnsNull) {
  for (const size_t n : {kTooMuch, kImpossible[0], kImpossible[5]}) {
    EXPECT_EQ(::operator new(opaque(n), nothrow), nullptr);
    EXPECT_EQ(::operator new[](opaque(n), nothrow), nullptr);
    EXPECT_EQ(::operator new(opaque(n), align_val_t{64}, nothrow), nullptr);
    EXPECT_EQ(::operator new[](opaque(n), align_val_t{64}, nothrow), nullptr);
  }
}

TEST(OutOfMemory, ProgramGoesOn) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_THROW(opaque(std::vector<char>(opaque(kTooMuch)).data()), std::bad_alloc);
    const std::string text(1000, 'x');
    EXPECT_EQ(text[999], 'x');
  }
}

int handler_calls = 0;

// Gives up, by taking itself away, at the third call.
void handler_that_gives_up() {
  if (++handler_calls == 3) std::set_new_handler(nullptr);
}

struct HandlerGaveUp : std::bad_alloc {};
void handler_that_throws() {
  ++handler_calls;
  throw HandlerGaveUp();
}

class NewHandler : public testing::Test {
 protected:
  void SetUp() override { handler_calls = 0; }
  void TearDown() override { std::set_new_handler(nullptr); }

  template <class Allocate>
  void expect_three_calls_and_throw(Allocate allocate) {
    handler_calls = 0;
    std::set_new_handler(handler_that_gives_up);
    EXPECT_THROW((void)allocate(opaque(kTooMuch)), std::bad_alloc);
    EXPECT_EQ(handler_calls, 3);
  }
  template <class Allocate>
  void expect_three_calls_and_null(Allocate allocate) {
    handler_calls = 0;
    std::set_new_handler(handler_that_gives_up);
    EXPECT_EQ(allocate(opaque(kTooMuch)), nullptr);
    EXPECT_EQ(handler_calls, 3);
  }
  template <class Allocate>
  void expect_one_call_and_null(Allocate allocate) {
    handler_calls = 0;
    std::set_new_handler(handler_that_throws);
    EXPECT_EQ(allocate(opaque(kTooMuch)), nullptr);
    EXPECT_EQ(handler_calls, 1);
  }
};

TEST_F(NewHandler, IsCalledUntilItGivesUp) {
  expect_three_calls_and_throw([](size_t n) { return ::operator new(n); });
  expect_three_calls_and_throw([](size_t n) { return ::operator new[](n); });
  expect_three_calls_and_throw([](size_t n) { return ::operator new(n, align_val_t{64}); });
  expect_three_calls_and_throw([](size_t n) { return ::operator new[](n, align_val_t{64}); });
}

TEST_F(NewHandler, IsCalledByNothrowToo) {
  expect_three_calls_and_null([](size_t n) { return ::operator new(n, nothrow); });
  expect_three_calls_and_null([](size_t n) { return ::operator new[](n, nothrow); });
  expect_three_calls_and_null([](size_t n) { return ::operator new(n, align_val_t{64}, nothrow); });
  expect_three_calls_and_null(
      [](size_t n) { return ::operator new[](n, align_val_t{64}, nothrow); });
}

TEST_F(NewHandler, MayThrow) {
  std::set_new_handler(handler_that_throws);
  EXPECT_THROW((void)::operator new(opaque(kTooMuch)), HandlerGaveUp);
  EXPECT_THROW((void)::operator new[](opaque(kTooMuch), align_val_t{64}), HandlerGaveUp);
}

TEST_F(NewHandler, ThrownInNothrowIsNull) {
  expect_one_call_and_null([](size_t n) { return ::operator new(n, nothrow); });
  expect_one_call_and_null([](size_t n) { return ::operator new[](n, nothrow); });
  expect_one_call_and_null([](size_t n) { return ::operator new(n, align_val_t{64}, nothrow); });
  expect_one_call_and_null([](size_t n) { return ::operator new[](n, align_val_t{64}, nothrow); });
}

// What a handler has found room for is of the form of new that called it.
TEST_F(NewHandler, MayMakeRoom) {
  constexpr size_t kSize = 16 << 20;
  const auto a = align_val_t{64};
  char none[32] = "";
  EXPECT_EQ(loft_option_get("hard_limit", none, sizeof(none)), 0);
  static const char* lifted;
  lifted = none;
  const auto make = [](auto allocate) {
    handler_calls = 0;
    std::set_new_handler([] {
      ++handler_calls;
      loft_option_set("hard_limit", lifted);
    });
    EXPECT_EQ(loft_option_set("hard_limit", "1M"), 0);
    void* const p = allocate();
    EXPECT_EQ(handler_calls, 1);
    EXPECT_NE(p, nullptr);
    return p;
  };
  ::operator delete(make([] { return ::operator new(opaque(kSize)); }));
  ::operator delete[](make([] { return ::operator new[](opaque(kSize)); }));
  ::operator delete(make([=] { return ::operator new(opaque(kSize), a); }), a);
  ::operator delete[](make([=] { return ::operator new[](opaque(kSize), a); }), a);
  ::operator delete(make([] { return ::operator new(opaque(kSize), nothrow); }));
  ::operator delete[](make([] { return ::operator new[](opaque(kSize), nothrow); }));
  ::operator delete(make([=] { return ::operator new(opaque(kSize), a, nothrow); }), a);
  ::operator delete[](make([=] { return ::operator new[](opaque(kSize), a, nothrow); }), a);
}

TEST_F(NewHandler, IsNotCalledBySuccess) {
  std::set_new_handler(handler_that_throws);
  ::operator delete(::operator new(opaque(size_t{100})));
  ::operator delete(::operator new(opaque(size_t{100}), nothrow));
  EXPECT_EQ(handler_calls, 0);
}

TEST_F(NewHandler, IsNotCalledByMalloc) {
  std::set_new_handler(handler_that_throws);
  EXPECT_EQ(malloc(opaque(kTooMuch)), nullptr);
  EXPECT_EQ(handler_calls, 0);
}

}  // namespace
