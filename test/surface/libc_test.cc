// What libc allocates on a program's behalf comes from the same heap, and goes back to it.
#include <errno.h>
#include <glob.h>
#include <gtest/gtest.h>
#include <locale.h>
#include <malloc.h>
#include <netdb.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include <string>

namespace {

TEST(Libc, Strings) {
  for (size_t n : {0, 1, 15, 16, 17, 1000, 100'000}) {
    const std::string text(n, 'q');
    char* copy = strdup(text.c_str());
    ASSERT_NE(copy, nullptr);
    EXPECT_EQ(text, copy);
    EXPECT_GE(malloc_usable_size(copy), n + 1);
    copy = static_cast<char*>(realloc(copy, n + 100));
    EXPECT_EQ(text, copy);
    free(copy);

    copy = strndup(text.c_str(), n / 2);
    EXPECT_EQ(strlen(copy), n / 2);
    free(copy);
  }
  wchar_t* wide = wcsdup(L"wide");
  EXPECT_EQ(wcscmp(wide, L"wide"), 0);
  free(wide);
}

TEST(Libc, Formatting) {
  char* text = nullptr;
  ASSERT_EQ(asprintf(&text, "%d and %s", 42, std::string(5000, 'z').c_str()), 5007);
  EXPECT_EQ(strncmp(text, "42 and zzz", 10), 0);
  free(text);
}

TEST(Libc, GetlineGrowsItsBuffer) {
  FILE* file = tmpfile();
  ASSERT_NE(file, nullptr);
  for (int n = 1; n < 3000; n *= 3)
    fprintf(file, "%s\n", std::string(static_cast<size_t>(n), 'l').c_str());
  rewind(file);
  // A buffer of ours, which libc enlarges by realloc.
  size_t capacity = 4;
  auto* line = static_cast<char*>(malloc(capacity));
  for (int n = 1; n < 3000; n *= 3) ASSERT_EQ(getline(&line, &capacity, file), n + 1);
  EXPECT_GE(malloc_usable_size(line), 2188u);
  EXPECT_EQ(getline(&line, &capacity, file), -1);
  free(line);
  fclose(file);
}

TEST(Libc, Paths) {
  char* path = realpath("/proc/self/../self/exe", nullptr);
  ASSERT_NE(path, nullptr);
  EXPECT_EQ(path[0], '/');
  free(path);
  path = getcwd(nullptr, 0);
  ASSERT_NE(path, nullptr);
  free(path);
  glob_t found = {};
  EXPECT_EQ(glob("/proc/self/*", 0, nullptr, &found), 0);
  EXPECT_GT(found.gl_pathc, 5u);
  globfree(&found);
}

TEST(Libc, MemoryStreams) {
  char* buffer = nullptr;
  size_t size = 0;
  FILE* stream = open_memstream(&buffer, &size);
  ASSERT_NE(stream, nullptr);
  for (int i = 0; i < 10'000; ++i) fprintf(stream, "%d,", i);
  fclose(stream);
  EXPECT_EQ(size, 48'890u);
  EXPECT_GE(malloc_usable_size(buffer), size);
  free(buffer);
}

TEST(Libc, Environment) {
  for (int i = 0; i < 200; ++i) {
    const std::string name = "LOFT_TEST_VARIABLE_" + std::to_string(i);
    ASSERT_EQ(setenv(name.c_str(), std::string(static_cast<size_t>(i), 'e').c_str(), 1), 0);
  }
  EXPECT_EQ(strlen(getenv("LOFT_TEST_VARIABLE_150")), 150u);
  for (int i = 0; i < 200; ++i) unsetenv(("LOFT_TEST_VARIABLE_" + std::to_string(i)).c_str());
}

TEST(Libc, LocalesAndExpressions) {
  locale_t c = newlocale(LC_ALL_MASK, "C", static_cast<locale_t>(nullptr));
  ASSERT_NE(c, static_cast<locale_t>(nullptr));
  locale_t copy = duplocale(c);
  freelocale(c);
  freelocale(copy);
  regex_t expression;
  ASSERT_EQ(regcomp(&expression, "^(a|b)*c{2,5}$", REG_EXTENDED), 0);
  EXPECT_EQ(regexec(&expression, "ababccc", 0, nullptr, 0), 0);
  regfree(&expression);
}

}  // namespace
