// The part of jemalloc's test framework that its tests of the standard functions use. The first
// expectation that does not hold ends the program with status 1.
#include <assert.h>
#include <errno.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LG_SIZEOF_PTR 3
#define TEST_MALLOC_SIZE malloc_usable_size
#define ZU(number) ((size_t)(number))
#define JEMALLOC_DIAGNOSTIC_PUSH
#define JEMALLOC_DIAGNOSTIC_POP
#define JEMALLOC_DIAGNOSTIC_IGNORE_ALLOC_SIZE_LARGER_THAN

typedef void test_t(void);
#define TEST_BEGIN(name) static void name(void) {
#define TEST_END }

static void expectation(bool holds, const char* file, int line, const char* format, ...) {
  if (holds) {
    return;
  }
  fprintf(stderr, "%s:%d: ", file, line);
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  exit(1);
}

#define EXPECT(condition, ...) expectation(condition, __FILE__, __LINE__, __VA_ARGS__)
#define expect_true(value, ...) EXPECT(value, __VA_ARGS__)
#define expect_false(value, ...) EXPECT(!(value), __VA_ARGS__)
#define expect_d_eq(a, b, ...) EXPECT((a) == (b), __VA_ARGS__)
#define expect_d_ne(a, b, ...) EXPECT((a) != (b), __VA_ARGS__)
#define expect_zu_eq(a, b, ...) EXPECT((a) == (b), __VA_ARGS__)
#define expect_ptr_eq(a, b, ...) EXPECT((a) == (b), __VA_ARGS__)
#define expect_ptr_ne(a, b, ...) EXPECT((a) != (b), __VA_ARGS__)
#define expect_ptr_null(a, ...) EXPECT((a) == NULL, __VA_ARGS__)
#define expect_ptr_not_null(a, ...) EXPECT((a) != NULL, __VA_ARGS__)
#define test_fail(...) EXPECT(false, __VA_ARGS__)
#define assert_ptr_not_null expect_ptr_not_null
#define assert_d_eq expect_d_eq
#define assert_zu_eq expect_zu_eq

static int get_errno(void) { return errno; }
static void set_errno(int number) { errno = number; }

#define BUFERROR_BUF 64
static int buferror(int number, char* buffer, size_t size) {
  return snprintf(buffer, size, "%s", strerror(number)) < 0;
}

// The tests purge in between, which every malloc offers in a way of its own.
static int mallctl(const char* name, void* old, size_t* old_size, void* value, size_t size) {
  malloc_trim(0);
  return 0;
}

static int test_all(test_t* const* tests) {
  for (; *tests != NULL; ++tests) {
    (*tests)();
  }
  return 0;
}
#define test(...) test_all((test_t* const[]){__VA_ARGS__, NULL})
#define test_no_reentrancy test
