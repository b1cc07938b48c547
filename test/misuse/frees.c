// Objects that are freed twice, and addresses that were never handed out.
#define _GNU_SOURCE
#include <alloca.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cases.h"

// ---- Twice
// ----------------------------------------------------------------------------------------

static void* give_it(void* object) {
  give(object);
  return NULL;
}

// What a first thread, and a first free of this size, make an allocator or libc allocate is not to
// come to lie where the object was: that would be the case of an object that is used again.
static void warm_up(size_t size) {
  Herd herd = take_herd(size);
  for (size_t i = 0; i < 2; i++) in_thread(give_it, herd.at[i]);
  for (size_t i = 2; i < herd.count; i++) give(herd.at[i]);
}

static void at_once(const Setting* s) {
  if (s->size >= kMiB) warm_up(s->size);
  char* const object = take(s->size);
  fill(object, kSecret, s->size);
  about_to();
  give(object);
  give(object);
  finish_through_if(overlaps(s->size, NULL));
}

// In a program that has been running for long: what a cache looks at while it is young is behind
// it.
static void later(const Setting* s) {
  warm_up(s->size);
  for (int i = 0; i < 4; i++) settle(s->size);
  char* const object = take(s->size);
  about_to();
  give(object);
  give(object);
  finish_through_if(overlaps(s->size, NULL));
}

// Others of its size are freed in between: more than any first list of freed objects holds.
static void delayed(const Setting* s) {
  if (s->size >= kMiB) warm_up(s->size);
  char* const object = take(s->size);
  const Herd others = take_herd(s->size);
  about_to();
  give(object);
  give_herd(&others);
  give(object);
  finish_through_if(overlaps(s->size, NULL));
}

static void interleaved(const Setting* s) {
  if (s->size >= kMiB) warm_up(s->size);
  char* const a = take(s->size);
  char* const b = take(s->size);
  about_to();
  give(a);
  give(b);
  give(a);
  finish_through_if(overlaps(s->size, NULL));
}

// The second free takes the memory away from whoever has got it meanwhile.
static void reused(const Setting* s) {
  if (s->size >= kMiB) warm_up(s->size);
  char* const object = take(s->size);
  give(object);
  const Herd owners = take_herd(s->size);
  about_to();
  give(object);
  finish_through_if(overlaps(s->size, &owners));
}

static void in_another(const Setting* s) {
  warm_up(s->size);
  char* const object = take(s->size);
  about_to();
  in_thread(give_it, object);
  give(object);
  finish_through_if(overlaps(s->size, NULL));
}

static void in_two_others(const Setting* s) {
  warm_up(s->size);
  char* const object = take(s->size);
  about_to();
  in_thread(give_it, object);
  in_thread(give_it, object);
  finish_through_if(overlaps(s->size, NULL));
}

// realloc has freed it.
static void after_realloc(const Setting* s) {
  if (s->size >= kMiB) warm_up(s->size);
  char* const object = take(s->size);
  char* const wall = take(s->size);
  char* moved = object;
  for (size_t size = s->size; moved == object && size < s->size << 8;) {
    size *= 4;
    moved = resize(moved, size);
    if (moved == NULL) finish(kBroken);
  }
  if (moved == object) finish(kBroken);
  about_to();
  give(object);
  const bool through = overlaps(s->size, NULL);
  give(wall);
  finish_through_if(through);
}

// ---- What malloc never returned
// -------------------------------------------------------------------

static char fixed[4096] __attribute__((aligned(64))) = {1};

// Through: an object comes to lie there, or what lies there changes.
__attribute__((noreturn)) static void finish_of(const char* address, size_t count, int byte) {
  static void* held[64 * 16];
  size_t used = 0;
  bool through = false;
  for (size_t size = 16; size < 2 * kMiB && used + 8 < sizeof(held) / sizeof(held[0]);
       size += size < 256 ? 16 : size / 4) {
    for (int i = 0; i < 8; i++) {
      const uintptr_t at = (uintptr_t)take(size), wanted = (uintptr_t)address;
      held[used++] = (void*)at;
      through |= at < wanted + count && wanted < at + size;
    }
  }
  if (byte >= 0) through |= !is_all(address, byte, count);
  while (used != 0) give(held[--used]);
  finish_through_if(through || overlaps(48, NULL));
}

__attribute__((noreturn)) static void free_there(char* address, size_t count, int byte) {
  about_to();
  give(address);
  finish_of(address, count, byte);
}

static void on_stack(const Setting* s) {
  (void)s;
  char local[512] __attribute__((aligned(64)));
  fill(local, kSecret, sizeof(local));
  free_there(local + 64, 256, kSecret);
}

static void on_stack_unaligned(const Setting* s) {
  (void)s;
  char local[512] __attribute__((aligned(64)));
  fill(local, kSecret, sizeof(local));
  free_there(local + 67, 256, kSecret);
}

static void in_alloca(const Setting* s) {
  char* const local = alloca(s->size * 8);
  fill(local, kSecret, s->size * 8);
  free_there(local, s->size * 8, kSecret);
}

static void in_data(const Setting* s) {
  (void)s;
  fill(fixed, kSecret, sizeof(fixed));
  free_there(fixed + 64, 256, kSecret);
}

static void in_code(const Setting* s) {
  (void)s;
  free_there((char*)(uintptr_t)&in_data, 16, -1);
}

static char* own_pages(int protection) {
  char* const pages = mmap(NULL, kMiB, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) finish(kBroken);
  return pages;
}

static void in_own_pages(const Setting* s) {
  (void)s;
  char* const pages = own_pages(PROT_READ | PROT_WRITE);
  fill(pages, kSecret, 4096);
  about_to();
  give(pages);
  if (!is_there(pages)) finish(kThrough);
  finish_of(pages, 4096, kSecret);
}

static void in_closed_pages(const Setting* s) {
  (void)s;
  free_there(own_pages(PROT_NONE) + 64, 64, -1);
}

static void unmapped(const Setting* s) {
  (void)s;
  char* const pages = own_pages(PROT_READ | PROT_WRITE);
  munmap(pages, kMiB);
  free_there(pages + 4096, 64, -1);
}

static void in_null_page(const Setting* s) {
  (void)s;
  free_there((char*)(uintptr_t)0x40, 64, -1);
}

static void not_canonical(const Setting* s) {
  (void)s;
  free_there((char*)(uintptr_t)0x8877665544332210, 64, -1);
}

// A place in the heap, of which no object begins there. `count` bytes from the object's start.
static void in_object(const Setting* s) {
  Herd herd = take_herd(s->size);
  about_to();
  give(herd.at[1] + s->count);
  const bool changed = !is_all(herd.at[1], kSecret, s->size);
  finish_through_if(overlaps(s->size, &herd) || changed);
}

static void in_the_middle(const Setting* s) {
  const Setting middle = {.size = s->size, .count = s->size / 32 * 16};
  in_object(&middle);
}

static void far_beyond(const Setting* s) {
  char* const object = take(s->size);
  free_there(object + ((size_t)1 << 30), 64, -1);
}

// The place of an object that nobody has been given, or of none.
static void just_behind(const Setting* s) {
  Herd herd = take_herd(s->size);
  char* last = herd.at[0];
  for (size_t i = 0; i < herd.count; i++) {
    if (herd.at[i] > last) last = herd.at[i];
  }
  about_to();
  give(last + s->size);
  finish_through_if(overlaps(s->size, &herd));
}

// What a variable that was never set may hold.
static void garbage(const Setting* s) {
  (void)s;
  free_there((char*)(uintptr_t)1, 16, -1);
}

static void realloc_of_garbage(const Setting* s) {
  about_to();
  finish_through_if(resize((char*)(uintptr_t)1, s->size) != NULL);
}

static void measure_garbage(const Setting* s) {
  (void)s;
  about_to();
  finish_through_if(malloc_usable_size((char*)(uintptr_t)1) != 0);
}

static void realloc_of_stack(const Setting* s) {
  char local[512] __attribute__((aligned(64)));
  fill(local, kSecret, sizeof(local));
  about_to();
  char* const moved = resize(local + 64, s->size * 8);
  if (moved != NULL && has_secret(moved, s->size)) finish(kThrough);
  finish_of(local + 64, 256, kSecret);
}

static void realloc_of_interior(const Setting* s) {
  Herd herd = take_herd(s->size);
  about_to();
  char* const moved = resize(herd.at[1] + 16, s->size * 4);
  const bool copied = moved != NULL && has_secret(moved, 16);
  finish_through_if(overlaps(s->size, &herd) || copied);
}

#define TWICE "Double frees"
#define NEVER "Frees of addresses that `malloc` did not return"

const Family kFrees[] = {
    {TWICE, "double", "at once", at_once, kAll, 0, NULL},
    {TWICE, "double-later", "at once, long after the start", later, kAll, 0, NULL},
    {TWICE, "double-delayed", "after frees of others", delayed, kAll, 0, NULL},
    {TWICE, "double-interleaved", "a, b, a", interleaved, kAll, 0, NULL},
    {TWICE, "double-reused", "another owner has it by then", reused, kAll, 0, NULL},
    {TWICE, "double-other-thread", "another thread has freed it", in_another, kMost, 0, NULL},
    {TWICE, "double-two-threads", "two other threads", in_two_others, kMost, 0, NULL},
    {TWICE, "double-realloc", "`realloc` has freed it", after_realloc, kMost, 0, NULL},
    {NEVER, "free-stack", "on the stack", on_stack, 0, 0, NULL},
    {NEVER, "free-stack-unaligned", "on the stack, unaligned", on_stack_unaligned, 0, 0, NULL},
    {NEVER, "free-alloca", "from `alloca`", in_alloca, 0, 0, NULL},
    {NEVER, "free-static", "a static variable", in_data, 0, 0, NULL},
    {NEVER, "free-code", "a function", in_code, 0, 0, NULL},
    {NEVER, "free-mmap", "pages of the program's own", in_own_pages, 0, 0, NULL},
    {NEVER, "free-closed", "pages that must not be read", in_closed_pages, 0, 0, NULL},
    {NEVER, "free-unmapped", "where nothing is mapped", unmapped, 0, 0, NULL},
    {NEVER, "free-null-page", "in the page of address 0", in_null_page, 0, 0, NULL},
    {NEVER, "free-not-canonical", "no address at all", not_canonical, 0, 0, NULL},
    {NEVER, "free-1", "the number 1", garbage, 0, 0, NULL},
    {NEVER, "free-interior", "within an object", in_the_middle, kAll, 0, NULL},
    {NEVER, "free-unaligned", "an object's second byte", in_object, kAll, 1, NULL},
    {NEVER, "free-behind", "where an object ends", just_behind, kAll, 0, NULL},
    {NEVER, "free-far", "1 GiB behind an object", far_beyond, kTiny | kLarge, 0, NULL},
    {NEVER, "realloc-1", "`realloc` of the number 1", realloc_of_garbage, 0, 0, NULL},
    {NEVER, "usable-1", "`malloc_usable_size` of the number 1", measure_garbage, 0, 0, NULL},
    {NEVER, "realloc-stack", "`realloc`, on the stack", realloc_of_stack, 0, 0, NULL},
    {NEVER, "realloc-interior", "`realloc`, within an object", realloc_of_interior, kMost, 0, NULL},
    {0},
};
