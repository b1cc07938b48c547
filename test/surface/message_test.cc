// Where loft's own lines go.
#include <gtest/gtest.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <string>

#include "loft/loft.h"
#include "surface/support.h"

namespace {

// The handler may not allocate.
struct Heard {
  int calls = 0;
  size_t used = 0;
  char text[1 << 17] = {};
};
Heard heard;

void hear(const char* text, size_t bytes, void* closure) {
  auto* const to = static_cast<Heard*>(closure);
  ++to->calls;
  if (text[bytes] != '\0' || to->used + bytes >= sizeof(to->text)) return;
  memcpy(to->text + to->used, text, bytes);
  to->used += bytes;
}

class Messages : public testing::Test {
 protected:
  Messages() {
    heard = {};
    loft_set_message_handler(hear, &heard);
  }
  ~Messages() override { loft_set_message_handler(nullptr, nullptr); }
};

TEST_F(Messages, Statistics) {
  testing::internal::CaptureStderr();
  malloc_stats();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(heard.calls, 1);
  EXPECT_NE(strstr(heard.text, "resident"), nullptr) << heard.text;
}

TEST_F(Messages, Warnings) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(loft_option_set("socket", "/no/such/folder/loft"), 0);
  EXPECT_EQ(loft_option_set("socket", ""), 0);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(strncmp(heard.text, "loft: ", 6), 0) << heard.text;
  EXPECT_EQ(heard.text[heard.used - 1], '\n');
}

TEST_F(Messages, ReportsOfMisuse) {
  ASSERT_EQ(loft_option_set("misuse", "continue"), 0);
  testing::internal::CaptureStderr();
  int local = 0;
  free(surface::opaque(&local));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_NE(strstr(heard.text, "foreign"), nullptr) << heard.text;

  static Heard reported;
  loft_set_report_handler(hear, &reported);
  heard = {};
  free(surface::opaque(&local));
  EXPECT_EQ(heard.calls, 2) << "what comes before the stack, and the rest";
  EXPECT_EQ(reported.calls, 1);
  EXPECT_STREQ(reported.text, heard.text);
  loft_set_report_handler(nullptr, nullptr);
  EXPECT_EQ(loft_option_set("misuse", "stop"), 0);
}

// What a handler makes loft say is not told to the handler.
TEST_F(Messages, OfTheHandlerItselfGoToStandardError) {
  ASSERT_EQ(loft_option_set("misuse", "continue"), 0);
  static int local;
  const auto misuse = [](const char* text, size_t bytes, void* closure) {
    hear(text, bytes, closure);
    free(surface::opaque(&local));
  };
  loft_set_message_handler(misuse, &heard);
  testing::internal::CaptureStderr();
  free(surface::opaque(&local));
  EXPECT_NE(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(heard.calls, 1);
  EXPECT_EQ(loft_option_set("misuse", "stop"), 0);
}

TEST_F(Messages, OfTheProcessThatAMistakeEnds) {
  const auto die = [] {
    // The child writes what it is told where the test reads it.
    loft_set_message_handler(
        [](const char* text, size_t bytes, void*) {
          if (write(2, "told: ", 6) == 6) (void)!write(2, text, bytes);
        },
        nullptr);
    int local = 0;
    free(surface::opaque(&local));
  };
  EXPECT_EXIT(die(), testing::KilledBySignal(SIGABRT), "^told: loft: free of a foreign pointer");
}

TEST_F(Messages, GoBackToStandardError) {
  loft_set_message_handler(nullptr, nullptr);
  testing::internal::CaptureStderr();
  malloc_stats();
  EXPECT_NE(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(heard.calls, 0);
}

}  // namespace
