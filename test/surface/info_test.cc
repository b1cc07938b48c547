// mallinfo, mallinfo2, malloc_info, malloc_stats, mallopt, malloc_trim.
#include <errno.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <string>
#include <vector>

#include "surface/support.h"

namespace {

TEST(Mallinfo, PartsAddUp) {
  std::vector<void*> objects;
  for (size_t i = 0; i < 10'000; ++i) objects.push_back(malloc(i % 500));
  const struct mallinfo2 info = mallinfo2();
  EXPECT_GE(info.arena, info.uordblks);
  EXPECT_EQ(info.arena, info.uordblks + info.fordblks);
  EXPECT_GE(info.uordblks, 10'000u * 249);
  for (void* p : objects) free(p);
}

TEST(Mallinfo, SeesLargeObjects) {
  constexpr size_t kSize = size_t{256} << 20;
  const size_t before = mallinfo2().hblkhd;
  void* p = malloc(surface::opaque(kSize));
  ASSERT_NE(p, nullptr);
  EXPECT_GE(mallinfo2().hblkhd, before + kSize);
  free(p);
  EXPECT_LT(mallinfo2().hblkhd, before + kSize);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
TEST(Mallinfo, OldOneAgrees) {
  const struct mallinfo info = mallinfo();
  EXPECT_GE(info.arena, info.uordblks);
  EXPECT_GE(info.uordblks, 0);
}
#pragma GCC diagnostic pop

// As much of XML as malloc_info writes: elements, attributes in double quotes, white space between
// them. Returns an empty string, or what is wrong.
std::string xml_error(const std::string& text) {
  std::vector<std::string> open;
  size_t at = 0;
  bool any = false;
  while (at < text.size()) {
    if (isspace(static_cast<unsigned char>(text[at])) != 0) {
      ++at;
      continue;
    }
    if (text[at] != '<') return "text outside of elements: " + text.substr(at, 20);
    if (any && open.empty()) return "more than one root";
    any = true;
    const size_t end = text.find('>', at);
    if (end == std::string::npos) return "element without end";
    std::string tag = text.substr(at + 1, end - at - 1);
    at = end + 1;
    if (tag[0] == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return "closes what is not open: " + tag;
      open.pop_back();
      continue;
    }
    const bool alone = tag.back() == '/';
    if (alone) tag.pop_back();
    const size_t name_end = std::min(tag.find(' '), tag.size());
    for (size_t i = name_end; i < tag.size();) {
      if (tag[i] == ' ') {
        ++i;
        continue;
      }
      const size_t equals = tag.find("=\"", i);
      if (equals == std::string::npos) return "attribute without value: " + tag;
      const size_t quote = tag.find('"', equals + 2);
      if (quote == std::string::npos) return "value without end: " + tag;
      i = quote + 1;
    }
    if (!alone) open.push_back(tag.substr(0, name_end));
  }
  if (!open.empty()) return "not closed: " + open.back();
  return any ? "" : "empty";
}

TEST(MallocInfo, IsWellFormed) {
  char* text = nullptr;
  size_t size = 0;
  FILE* stream = open_memstream(&text, &size);
  ASSERT_EQ(malloc_info(0, stream), 0);
  fclose(stream);
  EXPECT_EQ(xml_error(text), "") << text;
  EXPECT_EQ(strncmp(text, "<malloc version=\"1\">", 20), 0);
  EXPECT_NE(strstr(text, "<heap nr=\"0\">"), nullptr);
  EXPECT_NE(strstr(text, "<system type=\"current\" size="), nullptr);
  free(text);
}

TEST(MallocInfo, RejectsOptions) { EXPECT_EQ(malloc_info(1, stdout), EINVAL); }

TEST(MallocStats, WritesToStandardError) {
  testing::internal::CaptureStderr();
  malloc_stats();
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_GT(text.size(), 50u);
  EXPECT_EQ(text.back(), '\n');
}

TEST(Mallopt, AcceptsWhatGlibcKnows) {
  for (const int parameter : {M_MXFAST, M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD, M_MMAP_MAX,
                              M_ARENA_TEST, M_ARENA_MAX}) {
    EXPECT_EQ(mallopt(parameter, 64), 1) << parameter;
  }
}

TEST(MallocTrim, GivesMemoryBack) {
  std::vector<void*> objects;
  for (int i = 0; i < 20'000; ++i) {
    objects.push_back(malloc(2000));
    memset(objects.back(), 1, 2000);
  }
  for (void* p : objects) free(p);
  EXPECT_EQ(malloc_trim(0), 1);
  const int again = malloc_trim(0);
  EXPECT_TRUE(again == 0 || again == 1);
  // What was given back serves again.
  for (void*& p : objects) {
    p = malloc(2000);
    memset(p, 2, 2000);
  }
  for (void* p : objects) free(p);
}

}  // namespace
