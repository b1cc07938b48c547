// What reports of misuse say of an address, and whom they are told.
#include "api/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <string>

#include "base/options.h"
#include "heaps/user_heap.h"
#include "loft/loft.h"
#include "os/fault.h"

namespace loft {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

std::string described(const void* p) {
  const Text line = describe_address(p);
  return {line.data(), line.size()};
}

std::string text_of(const void* p) {
  const Text text = Text() << p;
  return {text.data(), text.size()};
}

TEST(Describe, Objects) {
  const struct {
    size_t asked;
    const char* like;
  } kinds[] = {
      {100, "object 0x[0-9a-f]+ of 112 bytes, 17 bytes into it, slab 0x[0-9a-f]+, heap [0-9]+"},
      {100'000, "object 0x[0-9a-f]+ of [0-9]+ bytes, 17 bytes into it, medium, heap [0-9]+"},
      {10'000'000, "object 0x[0-9a-f]+ of [0-9]+ bytes, 17 bytes into it, large"},
  };
  for (const auto& [asked, like] : kinds) {
    char* const p = static_cast<char*>(loft_malloc(asked));
    ASSERT_NE(p, nullptr);
    EXPECT_THAT(described(p + 17), MatchesRegex(like));
    EXPECT_THAT(described(p), StartsWith("object " + text_of(p) + " of "));
    EXPECT_THAT(described(p), testing::Not(HasSubstr("into it")));
    loft_free(p);
  }
}

TEST(Describe, ObjectsOfAHeapOfTheProgramsOwn) {
  loft_heap_t* const heap = loft_heap_create();
  char* const p = static_cast<char*>(loft_heap_malloc(heap, 1000));
  ASSERT_NE(p, nullptr);
  EXPECT_THAT(described(p + 1),
              MatchesRegex("object 0x[0-9a-f]+ of [0-9]+ bytes, 1 bytes into it, heap of the "
                           "program's own"));
  loft_heap_destroy(heap);
  EXPECT_THAT(described(p), testing::Not(HasSubstr("object 0x")));
}

TEST(Describe, NoObjects) {
  loft_free(loft_malloc(1));
  int on_the_stack = 0;
  const std::string at = text_of(&on_the_stack);
  EXPECT_EQ(described(&on_the_stack), at + " lies outside of the heap");
  EXPECT_EQ(described(reinterpret_cast<const void*>(UINTPTR_MAX)),
            "0xffffffffffffffff lies outside of the heap");
  static char region[4096];
  loft_heap_t* const heap = loft_heap_create_over(region, sizeof(region));
  ASSERT_NE(heap, nullptr);
  EXPECT_EQ(described(region + 1024),
            text_of(region + 1024) + " lies in a region of a heap of the program's own");
  // A report waits for nobody who makes or ends a heap at this moment: not for its own thread,
  // either.
  UserHeap::prepare_fork();
  EXPECT_EQ(described(region + 1024), text_of(region + 1024) + " lies outside of the heap");
  UserHeap::finish_fork(false);
  loft_heap_destroy(heap);
}

void put(const char* text, size_t bytes, void* closure) {
  const auto file = static_cast<FILE*>(closure);
  fprintf(file, "handled %zu %zu: %s", bytes, strlen(text), text);
  fflush(file);
}

// The handler is set in the child that dies.
TEST(ReportDeathTest, TellsTheHandler) {
  int here = 0;
  const auto die = [&] {
    loft_set_report_handler(put, stderr);
    os::fault(Text() << "the end of " << &here);
  };
  EXPECT_EXIT(die(), testing::KilledBySignal(SIGABRT),
              "^loft: the end of 0x[0-9a-f]+\n"
              "  0x[0-9a-f]+ lies outside of the heap\n"
              "(  [^\n]*\n)+"
              "  end of report\n"
              "handled [0-9]+ [0-9]+: loft: the end of 0x[0-9a-f]+\n");
}

TEST(ReportDeathTest, GoesOnWhereItMay) {
  const auto misuse = [] {
    loft_set_report_handler(put, stderr);
    os::misuse(Text() << "first");
    loft_set_report_handler(nullptr, nullptr);
    os::misuse(Text() << "second");
    _exit(7);
  };
  EXPECT_EXIT(misuse(), testing::ExitedWithCode(7),
              "^loft: first\n(  [^\n]*\n)+handled [^\n]*first\n(  [^\n]*\n)+"
              "loft: second .LOFT_REPORT_FILE=PATH adds the stack.\n$");
}

}  // namespace
}  // namespace loft
