// Writes and reads beyond the ends of objects.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "cases.h"

// As long as the largest object and what is written behind it.
static char source[9 * kMiB + 1];
static char copied[9 * kMiB + 1];

static const char* bytes(size_t count) {
  fill(source, kWritten, count);
  source[count] = 0;
  return source;
}

static void write_behind(char* object, const Setting* s) {
  for (size_t i = 0; i < s->count; i++) ((volatile char*)object)[s->size + i] = kWritten;
}

static void write_before(char* object, const Setting* s) {
  for (size_t i = 1; i <= s->count; i++) ((volatile char*)object)[-(ptrdiff_t)i] = kWritten;
}

// From the object's first byte, as a copy is that is too long.
static void copy_behind(char* object, const Setting* s) {
  memcpy(object, bytes(s->size + s->count), s->size + s->count);
}

static void copy_before(char* object, const Setting* s) {
  memcpy(object - s->count, bytes(s->count + 8), s->count + 8);
}

static void move_behind(char* object, const Setting* s) {
  memmove(object, bytes(s->size + s->count), s->size + s->count);
}

static void set_behind(char* object, const Setting* s) {
  memset(object, kWritten, s->size + s->count);
}

static void string_behind(char* object, const Setting* s) {
  strcpy(object, bytes(s->size + s->count - 1));
}

static void joined_behind(char* object, const Setting* s) {
  object[0] = 0;
  strcat(object, bytes(s->size + s->count - 1));
}

static void bounded_string_behind(char* object, const Setting* s) {
  strncpy(object, bytes(s->size + s->count), s->size + s->count);
}

static void string_end_behind(char* object, const Setting* s) {
  stpcpy(object, bytes(s->size + s->count - 1));
}

static void print_behind(char* object, const Setting* s) {
  sprintf(object, "%s", bytes(s->size + s->count - 1));
}

static void wide_copy_behind(char* object, const Setting* s) {
  wmemcpy((wchar_t*)object, (const wchar_t*)bytes(s->size + s->count), (s->size + s->count) / 4);
}

static void wide_set_behind(char* object, const Setting* s) {
  wmemset((wchar_t*)object, 0x41414141, (s->size + s->count) / 4);
}

// What a compiler makes of the same calls with _FORTIFY_SOURCE, where it does not know the size.
void* __memcpy_chk(void* to, const void* from, size_t count, size_t room);
void* __memmove_chk(void* to, const void* from, size_t count, size_t room);
void* __memset_chk(void* to, int byte, size_t count, size_t room);
char* __strcpy_chk(char* to, const char* from, size_t room);

static void copy_checked(char* object, const Setting* s) {
  __memcpy_chk(object, bytes(s->size + s->count), s->size + s->count, SIZE_MAX);
}

static void move_checked(char* object, const Setting* s) {
  __memmove_chk(object, bytes(s->size + s->count), s->size + s->count, SIZE_MAX);
}

static void set_checked(char* object, const Setting* s) {
  __memset_chk(object, kWritten, s->size + s->count, SIZE_MAX);
}

static void string_checked(char* object, const Setting* s) {
  __strcpy_chk(object, bytes(s->size + s->count - 1), SIZE_MAX);
}

static bool is_before(const Setting* s) { return s->act == write_before || s->act == copy_before; }

// Through: another object has changed, and neither its end nor that of the one that was written
// beyond, nor all that comes and goes after that, has told.
static void write_beyond(const Setting* s) {
  Herd herd = take_herd(s->size);
  const int written = nearest(&herd, is_before(s));
  char* const object = herd.at[written];
  about_to();
  s->act(object, s);
  bool changed = false;
  for (size_t i = 0; i < herd.count; i++) {
    if ((int)i != written) changed |= !is_all(herd.at[i], kSecret, herd.size);
  }
  give(object);
  herd.at[written] = NULL;
  changed |= overlaps(s->size, &herd);
  give_herd(&herd);
  settle(s->size);
  finish_through_if(changed);
}

static void read_behind(char* object, const Setting* s) {
  for (size_t i = 0; i < s->count; i++) copied[i] = ((volatile char*)object)[s->size + i];
}

static void read_before(char* object, const Setting* s) {
  for (size_t i = 1; i <= s->count; i++) copied[i - 1] = ((volatile char*)object)[-(ptrdiff_t)i];
}

static void copy_from_behind(char* object, const Setting* s) {
  memcpy(copied, object, s->size + s->count);
  memmove(copied, copied + s->size, s->count);
}

// A string without an end fills the object: `strlen` goes on into whatever is behind.
static void read_string(const Setting* s) {
  Herd herd = take_herd(s->size);
  const int from = nearest(&herd, false);
  char* const object = herd.at[from];
  fill(object, kWritten, s->size);
  herd.at[from] = NULL;
  about_to();
  const size_t length = strlen(object);
  finish_through_if(length > s->size && covering(&herd, object + s->size, length - s->size) >= 0);
}

// Through: what was read is another object's.
static void read_beyond(const Setting* s) {
  Herd herd = take_herd(s->size);
  const bool before = s->act == read_before;
  const int from = nearest(&herd, before);
  char* const object = herd.at[from];
  fill(object, 0, s->size);
  herd.at[from] = NULL;
  about_to();
  s->act(object, s);
  const char* const first = before ? object - s->count : object + s->size;
  finish_through_if(covering(&herd, first, s->count) >= 0 || has_secret(copied, s->count));
}

#define WRITES "Writes beyond an object"
#define BYMEM "Writes beyond an object, by libc's functions"
#define READS "Reads beyond an object"

const Family kBounds[] = {
    {WRITES, "overflow-1", "1 byte behind the end", write_beyond, kAll, 1, write_behind},
    {WRITES, "overflow-32", "32 bytes behind the end", write_beyond, kAll, 32, write_behind},
    {WRITES, "overflow-1m", "1 MiB behind the end", write_beyond, kAll, kMiB, write_behind},
    {WRITES, "underflow-1", "1 byte before the start", write_beyond, kAll, 1, write_before},
    {WRITES, "underflow-32", "32 bytes before the start", write_beyond, kAll, 32, write_before},
    {WRITES, "underflow-1m", "1 MiB before the start", write_beyond, kAll, kMiB, write_before},
    {BYMEM, "memcpy-1", "`memcpy`, 1 byte too many", write_beyond, kMost, 1, copy_behind},
    {BYMEM, "memcpy-32", "`memcpy`, 32 bytes too many", write_beyond, kMost, 32, copy_behind},
    {BYMEM, "memcpy-1m", "`memcpy`, 1 MiB too many", write_beyond, kMost, kMiB, copy_behind},
    {BYMEM, "memcpy-before-1", "`memcpy` to 1 byte before", write_beyond, kTiny, 1, copy_before},
    {BYMEM, "memcpy-before-32", "`memcpy` to 32 bytes before", write_beyond, kMost, 32,
     copy_before},
    {BYMEM, "memcpy-before-1m", "`memcpy` to 1 MiB before", write_beyond, kTiny, kMiB, copy_before},
    {BYMEM, "memmove-32", "`memmove`, 32 bytes too many", write_beyond, kTiny, 32, move_behind},
    {BYMEM, "memset-32", "`memset`, 32 bytes too many", write_beyond, kTiny, 32, set_behind},
    {BYMEM, "strcpy-1", "`strcpy`, the final 0 too many", write_beyond, kTiny, 1, string_behind},
    {BYMEM, "strcpy-32", "`strcpy`, 32 bytes too many", write_beyond, kTiny, 32, string_behind},
    {BYMEM, "strcat-32", "`strcat`, 32 bytes too many", write_beyond, kTiny, 32, joined_behind},
    {BYMEM, "strncpy-32", "`strncpy`, 32 bytes too many", write_beyond, kTiny, 32,
     bounded_string_behind},
    {BYMEM, "stpcpy-32", "`stpcpy`, 32 bytes too many", write_beyond, kTiny, 32, string_end_behind},
    {BYMEM, "sprintf-32", "`sprintf`, 32 bytes too many", write_beyond, kTiny, 32, print_behind},
    {BYMEM, "wmemcpy-32", "`wmemcpy`, 32 bytes too many", write_beyond, kTiny, 32,
     wide_copy_behind},
    {BYMEM, "wmemset-32", "`wmemset`, 32 bytes too many", write_beyond, kTiny, 32, wide_set_behind},
    {BYMEM, "memcpy-chk-32", "`__memcpy_chk`", write_beyond, kTiny, 32, copy_checked},
    {BYMEM, "memmove-chk-32", "`__memmove_chk`", write_beyond, kTiny, 32, move_checked},
    {BYMEM, "memset-chk-32", "`__memset_chk`", write_beyond, kTiny, 32, set_checked},
    {BYMEM, "strcpy-chk-32", "`__strcpy_chk`", write_beyond, kTiny, 32, string_checked},
    {READS, "read-1", "1 byte behind the end", read_beyond, kMost, 1, read_behind},
    {READS, "read-32", "32 bytes behind the end", read_beyond, kMost, 32, read_behind},
    {READS, "read-1m", "1 MiB behind the end", read_beyond, kMost, kMiB, read_behind},
    {READS, "read-before-32", "32 bytes before the start", read_beyond, kMost, 32, read_before},
    {READS, "read-memcpy-32", "`memcpy`, 32 bytes too many", read_beyond, kMost, 32,
     copy_from_behind},
    {READS, "read-strlen", "`strlen` of a string without an end", read_string, kTiny | kPage, 0,
     NULL},
    {READS, "read-memcpy-1m", "`memcpy`, 1 MiB too many", read_beyond, kTiny, kMiB,
     copy_from_behind},
    {0},
};
