// Pointers to objects that were freed, and what is left in memory of those who had it before.
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"

static size_t rounds_for(size_t size) {
  return size < 64 * 1024 ? 100000 : size < 4 * kMiB ? 400 : 40;
}

static bool covers(const char* object, size_t size, const char* byte) {
  return (uintptr_t)object <= (uintptr_t)byte && (uintptr_t)byte < (uintptr_t)object + size;
}

// Through: an object that is handed out later holds what was written.
static void write_after_free(const Setting* s) {
  char* const object = take(s->size);
  char* const wall = take(s->size);
  fill(object, kSecret, s->size);
  char* const middle = object + s->size / 2;
  about_to();
  give(object);
  for (int i = 0; i < 16; i++) ((volatile char*)middle)[i] = kWritten;
  bool through = false;
  for (size_t i = 0; i < rounds_for(s->size) && !through; i++) {
    char* const next = take(s->size);
    through = covers(next, s->size - 16, middle) && is_all(middle, kWritten, 16);
    give(next);
  }
  through |= overlaps(s->size, NULL);
  give(wall);
  finish_through_if(through);
}

// Some objects that may have got the freed one's place.
static Herd others_like(size_t size) {
  const Herd herd = take_herd(size);
  for (size_t i = 0; i < herd.count; i++) fill(herd.at[i], 0x11, size);
  return herd;
}

// Through: the object of another owner has changed.
static void write_after_reuse(const Setting* s) {
  char* const object = take(s->size);
  about_to();
  give(object);
  const Herd others = others_like(s->size);
  for (int i = 0; i < 16; i++) ((volatile char*)object)[s->size / 2 + i] = kWritten;
  bool changed = false;
  for (size_t i = 0; i < others.count; i++) changed |= !is_all(others.at[i], 0x11, s->size);
  give_herd(&others);
  settle(s->size);
  finish_through_if(changed);
}

// Through: its secret can still be read.
static void read_after_free(const Setting* s) {
  char* const object = take(s->size);
  char* const wall = take(s->size);
  fill(object, kSecret, s->size);
  about_to();
  give(object);
  const bool seen = has_secret(object, s->size);
  give(wall);
  finish_through_if(seen);
}

// Through: the secret of another owner can be read.
static void read_after_reuse(const Setting* s) {
  char* const object = take(s->size);
  fill(object, 0x11, s->size);
  about_to();
  give(object);
  const Herd others = take_herd(s->size);
  const bool seen = has_secret(object, s->size);
  give_herd(&others);
  finish_through_if(seen);
}

// realloc has moved it.
static void read_after_realloc(const Setting* s) {
  char* const object = take(s->size);
  char* const wall = take(s->size);
  fill(object, kSecret, s->size);
  char* const moved = resize(object, s->size * 16);
  if (moved == NULL) finish(kBroken);
  about_to();
  const bool seen = moved != object && has_secret(object, s->size);
  give(wall);
  finish_through_if(seen);
}

// ---- Who gets its place
// ---------------------------------------------------------------------------

static void reuse(const Setting* s) {
  char* const object = take(s->size);
  char* const wall = take(s->size);
  about_to();
  give(object);
  char* const next = take(s->size);
  const bool same = covers(next, s->size, object);
  give(wall);
  finish_through_if(same);
}

static void reuse_by_realloc(const Setting* s) {
  char* const object = take(s->size);
  char* const wall = take(s->size);
  about_to();
  char* const moved = resize(object, s->size * 16);
  char* const next = take(s->size);
  const bool same = moved != object && covers(next, s->size, object);
  give(wall);
  finish_through_if(same);
}

static int by_address(const void* a, const void* b) {
  const uintptr_t x = *(const uintptr_t*)a, y = *(const uintptr_t*)b;
  return x < y ? -1 : x > y;
}

// Many of one size are freed, so that whole pages are free, and many of another size come.
static void reuse_across(const Setting* s) {
  enum { kMany = 100000 };
  static uintptr_t many[kMany];
  const size_t count = s->size < 1024 ? kMany : 64;
  for (size_t i = 0; i < count; i++) many[i] = (uintptr_t)take(s->size);
  about_to();
  for (size_t i = 0; i < count; i++) give((void*)many[i]);
  qsort(many, count, sizeof(many[0]), by_address);
  bool within = false;
  for (size_t i = 0; i < 1000; i++) {
    const uintptr_t at = (uintptr_t)take(s->count);
    size_t first = 0, last = count;  // the first that ends behind `at` is among these
    while (first < last) {
      const size_t middle = (first + last) / 2;
      if (many[middle] + s->size <= at) {
        first = middle + 1;
      } else {
        last = middle;
      }
    }
    within |= first < count && many[first] < at + s->count;
  }
  finish_through_if(within);
}

// ---- What fresh memory holds
// ----------------------------------------------------------------------

static bool herd_has_secret(size_t size) {
  const size_t count = size <= 1024        ? 4 * kHerd
                       : size <= 32 * 1024 ? 256
                       : size < 4 * kMiB   ? 32
                                           : 8;
  for (size_t i = 0; i < count; i++) {
    if (has_secret(take(size), size)) return true;
  }
  return false;
}

static void* secrets_come_and_go(void* size) {
  const Herd herd = take_herd(*(const size_t*)size);
  give_herd(&herd);
  return NULL;
}

static void fresh(const Setting* s) {
  size_t size = s->size;
  secrets_come_and_go(&size);
  about_to();
  finish_through_if(herd_has_secret(s->size));
}

static void fresh_from_thread(const Setting* s) {
  size_t size = s->size;
  in_thread(secrets_come_and_go, &size);
  about_to();
  finish_through_if(herd_has_secret(s->size));
}

// Of another size than the secrets had.
static void fresh_from_other_size(const Setting* s) {
  enum { kMany = 100000 };
  static char* many[kMany];
  const size_t count = s->count < 1024 ? kMany : 16;
  for (size_t i = 0; i < count; i++) {
    many[i] = take(s->count);
    fill(many[i], kSecret, s->count);
  }
  for (size_t i = 0; i < count; i++) give(many[i]);
  about_to();
  finish_through_if(herd_has_secret(s->size));
}

// What realloc adds behind the old end.
static void grown(const Setting* s) {
  size_t size = s->size;
  secrets_come_and_go(&size);
  about_to();
  bool seen = false;
  for (int i = 0; i < 16; i++) {
    char* const object = take(s->size / 2);
    fill(object, 0x11, s->size / 2);
    char* const more = resize(object, s->size);
    if (more == NULL) finish(kBroken);
    seen |= has_secret(more + s->size / 2, s->size - s->size / 2);
  }
  finish_through_if(seen);
}

// ---- Calls with what was freed
// --------------------------------------------------------------------

// Through: it is made an object again, or copied from.
static void resize_freed(const Setting* s) {
  char* const object = take(s->size);
  char* const wall = take(s->size);
  fill(object, kSecret, s->size);
  give(object);
  about_to();
  char* const moved = resize(object, s->size * 2);
  const bool through = moved != NULL || overlaps(s->size, NULL);
  give(wall);
  finish_through_if(through);
}

static void measure_freed(const Setting* s) {
  char* const object = take(s->size);
  char* const wall = take(s->size);
  give(object);
  about_to();
  const bool through = malloc_usable_size(object) != 0;
  give(wall);
  finish_through_if(through);
}

static void measure_interior(const Setting* s) {
  char* const object = take(s->size);
  about_to();
  finish_through_if(malloc_usable_size(object + 16) != 0);
}

#define USES "Uses after free"
#define PLACES "Locations that are used again"
#define CONTENTS "Secrets in fresh memory"
#define CALLS "Calls with freed objects"

const Family kStale[] = {
    {USES, "write-after-free", "a write, seen in a later object", write_after_free, kAll, 0, NULL},
    {USES, "write-after-reuse", "a write, into another owner's object", write_after_reuse, kAll, 0,
     NULL},
    {USES, "read-after-free", "a read of the old contents", read_after_free, kAll, 0, NULL},
    {USES, "read-after-reuse", "a read of another owner's object", read_after_reuse, kAll, 0, NULL},
    {USES, "read-after-realloc", "a read where `realloc` has moved it from", read_after_realloc,
     kMost, 0, NULL},
    {PLACES, "reuse", "by the next `malloc`", reuse, kAll, 0, NULL},
    {PLACES, "reuse-realloc", "by `malloc`, after `realloc` has moved it", reuse_by_realloc, kMost,
     0, NULL},
    {PLACES, "reuse-other-size", "by objects of 4 KiB", reuse_across, kTiny, 4096, NULL},
    {PLACES, "reuse-small-by-medium", "by objects of 256 KiB", reuse_across, kTiny, kMiB / 4, NULL},
    {PLACES, "reuse-medium-by-small", "by objects of 4 KiB", reuse_across, kMedium, 4096, NULL},
    {CONTENTS, "fresh", "of freed objects of its size", fresh, kAll, 0, NULL},
    {CONTENTS, "fresh-thread", "of another thread's", fresh_from_thread, kMost, 0, NULL},
    {CONTENTS, "fresh-other-size", "of objects of 48 bytes", fresh_from_other_size, kPage | kMedium,
     48, NULL},
    {CONTENTS, "fresh-from-large", "of objects of 8 MiB", fresh_from_other_size, kPage | kMedium,
     8 * kMiB, NULL},
    {CONTENTS, "fresh-realloc", "behind what `realloc` has copied", grown, kMost, 0, NULL},
    {CALLS, "realloc-freed", "`realloc`", resize_freed, kAll, 0, NULL},
    {CALLS, "usable-freed", "`malloc_usable_size`", measure_freed, kAll, 0, NULL},
    {CALLS, "usable-interior", "`malloc_usable_size`, within an object", measure_interior, kMost, 0,
     NULL},
    {0},
};
