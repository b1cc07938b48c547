// Objects of no bytes, and sizes and alignments that make no sense.
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>

#include "cases.h"

// ---- No bytes: none can be read, none can be written
// ----------------------------------------------

static char* nothing(void) {
  char* object = NULL;
  for (int i = 0; i < 16; i++) object = take(0);
  return object;
}

static void write_nothing(const Setting* s) {
  (void)s;
  volatile char* const object = nothing();
  about_to();
  *object = kWritten;
  finish_through_if(*object == kWritten);
}

static void read_nothing(const Setting* s) {
  (void)s;
  volatile char* const object = nothing();
  about_to();
  (void)*object;
  finish(kThrough);
}

static void write_nothing_freed(const Setting* s) {
  (void)s;
  volatile char* const object = nothing();
  about_to();
  give((void*)object);
  *object = kWritten;
  finish_through_if(*object == kWritten);
}

static void read_nothing_freed(const Setting* s) {
  (void)s;
  volatile char* const object = nothing();
  about_to();
  give((void*)object);
  (void)*object;
  finish(kThrough);
}

static void write_nothing_of_calloc(const Setting* s) {
  (void)s;
  volatile char* const object = calloc(0, 16);
  if (object == NULL) finish(kBroken);
  about_to();
  *object = kWritten;
  finish_through_if(*object == kWritten);
}

static void give_nothing_twice(const Setting* s) {
  (void)s;
  char* const object = nothing();
  about_to();
  give(object);
  give(object);
  char* held[64];
  bool same = false;
  for (int i = 0; i < 64; i++) {
    held[i] = take(0);
    for (int k = 0; k < i; k++) same |= held[k] == held[i];
  }
  finish_through_if(same);
}

// ---- Too much
// -------------------------------------------------------------------------------------

__attribute__((noreturn)) static void finish_refused(const void* object) {
  finish_through_if(object != NULL);
}

static void half_of_all(const Setting* s) {
  (void)s;
  about_to();
  finish_refused(malloc((size_t)PTRDIFF_MAX + 1));
}

static void all(const Setting* s) {
  (void)s;
  about_to();
  // What is added for rounding or a header makes small numbers of some of them.
  for (size_t less = 0; less < 4096; less += less < 64 ? 1 : 64) {
    if (malloc(SIZE_MAX - less) != NULL) finish(kThrough);
  }
  finish(kAvoided);
}

static void product(const Setting* s) {
  (void)s;
  about_to();
  // The product, cut off at 64 bits, is 16.
  finish_refused(calloc(((size_t)1 << 60) + 1, 16));
}

static void product_of_array(const Setting* s) {
  char* const object = take(s->size);
  about_to();
  finish_refused(reallocarray(object, ((size_t)1 << 60) + 1, 16));
}

// The object stays as it was.
static void grow_to_all(const Setting* s) {
  char* const object = take(s->size);
  fill(object, kSecret, s->size);
  about_to();
  if (resize(object, SIZE_MAX - 64) != NULL) finish(kThrough);
  finish_through_if(!is_all(object, kSecret, s->size) || overlaps(s->size, NULL));
}

static void all_aligned(const Setting* s) {
  (void)s;
  about_to();
  for (size_t less = 0; less < 4096; less += 64) {
    if (memalign(4096, SIZE_MAX - less) != NULL) finish(kThrough);
  }
  finish(kAvoided);
}

static void pages_of_all(const Setting* s) {
  (void)s;
  about_to();
  finish_refused(pvalloc(SIZE_MAX - 64));
}

// ---- Alignments
// -----------------------------------------------------------------------------------

static void no_power_of_two(const Setting* s) {
  about_to();
  finish_refused(aligned_alloc(48, s->size));
}

static void no_power_of_two_posix(const Setting* s) {
  void* object = NULL;
  about_to();
  finish_through_if(posix_memalign(&object, 48, s->size) != EINVAL || object != NULL);
}

static void negative(const Setting* s) {
  about_to();
  finish_refused(aligned_alloc((size_t)-4096, s->size));
}

static void negative_posix(const Setting* s) {
  void* object = NULL;
  about_to();
  finish_through_if(posix_memalign(&object, (size_t)-8, s->size) == 0);
}

static void half_of_all_aligned(const Setting* s) {
  about_to();
  finish_refused(memalign((size_t)1 << 63, s->size));
}

#define NONE "Objects of no bytes"
#define TOO_MUCH "Sizes and alignments that make no sense"

const Family kSizes[] = {
    {NONE, "zero-write", "a write", write_nothing, 0, 0, NULL},
    {NONE, "zero-read", "a read", read_nothing, 0, 0, NULL},
    {NONE, "zero-write-after-free", "a write after free", write_nothing_freed, 0, 0, NULL},
    {NONE, "zero-read-after-free", "a read after free", read_nothing_freed, 0, 0, NULL},
    {NONE, "zero-calloc-write", "a write, from `calloc`", write_nothing_of_calloc, 0, 0, NULL},
    {NONE, "zero-double", "a double free", give_nothing_twice, 0, 0, NULL},
    {TOO_MUCH, "malloc-half", "`malloc`, half of all addresses", half_of_all, 0, 0, NULL},
    {TOO_MUCH, "malloc-negative", "`malloc`, small negative numbers", all, 0, 0, NULL},
    {TOO_MUCH, "calloc-overflow", "`calloc`, a product that is cut off", product, 0, 0, NULL},
    {TOO_MUCH, "reallocarray-overflow", "`reallocarray`, likewise", product_of_array, 0, 0, NULL},
    {TOO_MUCH, "realloc-negative", "`realloc`, a negative number", grow_to_all, kTiny | kLarge, 0,
     NULL},
    {TOO_MUCH, "memalign-negative", "`memalign`, negative numbers", all_aligned, 0, 0, NULL},
    {TOO_MUCH, "pvalloc-negative", "`pvalloc`, a negative number", pages_of_all, 0, 0, NULL},
    {TOO_MUCH, "aligned-48", "`aligned_alloc`, to 48", no_power_of_two, 0, 0, NULL},
    {TOO_MUCH, "posix-48", "`posix_memalign`, to 48", no_power_of_two_posix, 0, 0, NULL},
    {TOO_MUCH, "aligned-negative", "`aligned_alloc`, to a negative number", negative, 0, 0, NULL},
    {TOO_MUCH, "posix-negative", "`posix_memalign`, to a negative number", negative_posix, 0, 0,
     NULL},
    {TOO_MUCH, "memalign-half", "`memalign`, to half of all addresses", half_of_all_aligned, 0, 0,
     NULL},
    {0},
};
