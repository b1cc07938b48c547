#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cases.h"

void* take(size_t size) {
  void* const object = malloc(size);
  if (object == NULL) finish(kBroken);
  return object;
}

void give(void* object) { free(object); }

void* resize(void* object, size_t size) { return realloc(object, size); }

void fill(void* object, int byte, size_t size) { memset(object, byte, size); }

bool is_all(const void* object, int byte, size_t size) {
  const volatile unsigned char* const bytes = object;
  for (size_t i = 0; i < size; i++) {
    if (bytes[i] != byte) return false;
  }
  return true;
}

bool has_secret(const void* read, size_t size) {
  const volatile unsigned char* const bytes = read;
  enum { kRow = 8 };
  unsigned row = 0;
  for (size_t i = 0; i < size; i++) {
    row = bytes[i] == kSecret ? row + 1 : 0;
    if (row == kRow) return true;
  }
  return false;
}

static size_t herd_of(size_t size) {
  if (size <= 1024) return kHerd;
  if (size <= 32 * 1024) return 64;
  return size < 4 * kMiB ? 16 : 6;
}

Herd take_herd(size_t size) {
  Herd herd = {.size = size, .count = herd_of(size)};
  for (size_t i = 0; i < herd.count; i++) {
    herd.at[i] = take(size);
    fill(herd.at[i], kSecret, size);
  }
  return herd;
}

void give_herd(const Herd* herd) {
  for (size_t i = 0; i < herd->count; i++) give(herd->at[i]);
}

int covering(const Herd* herd, const void* bytes, size_t count) {
  const uintptr_t from = (uintptr_t)bytes;
  for (size_t i = 0; i < herd->count; i++) {
    const uintptr_t at = (uintptr_t)herd->at[i];
    if (herd->at[i] != NULL && at < from + count && from < at + herd->size) return (int)i;
  }
  return -1;
}

int nearest(const Herd* herd, bool before) {
  int best = 0;
  uintptr_t least = UINTPTR_MAX;
  for (size_t i = 0; i < herd->count; i++) {
    for (size_t k = 0; k < herd->count; k++) {
      const uintptr_t a = (uintptr_t)herd->at[i], b = (uintptr_t)herd->at[k];
      if (before ? a <= b : b <= a) continue;
      const uintptr_t gap = before ? a - b : b - a;
      if (gap >= least) continue;
      least = gap;
      best = (int)i;
    }
  }
  return best;
}

void about_to(void) {
  static const char line[] = "misuse\n";
  if (write(STDOUT_FILENO, line, sizeof(line) - 1) < 0) finish(kBroken);
}

void settle(size_t size) {
  enum { kAtOnce = 20000 };
  static void* held[kAtOnce];
  const size_t at_once = size <= 1024        ? kAtOnce
                         : size <= 32 * 1024 ? 2000
                         : size < 4 * kMiB   ? 40
                                             : 6;
  const size_t rounds = size <= 1024        ? 100000
                        : size <= 32 * 1024 ? 10000
                        : size < 4 * kMiB   ? 400
                                            : 40;
  for (size_t i = 0; i < at_once; i++) held[i] = take(size);
  for (size_t i = 0; i < at_once; i++) give(held[i]);
  for (size_t i = 0; i < rounds; i++) give(take(size));
}

typedef struct {
  uintptr_t start, end;
} Extent;

static int by_address(const void* a, const void* b) {
  const uintptr_t x = ((const Extent*)a)->start, y = ((const Extent*)b)->start;
  return x < y ? -1 : x > y;
}

bool overlaps(size_t size, const Herd* alive) {
  enum { kFresh = 4096 };
  static Extent all[kFresh + kHerd];
  const size_t fresh = size <= 32 * 1024 ? kFresh : size < 4 * kMiB ? 48 : 8;
  size_t count = 0;
  for (; count < fresh; count++) {
    const uintptr_t at = (uintptr_t)take(size);
    all[count] = (Extent){at, at + size};
  }
  for (size_t i = 0; alive != NULL && i < alive->count; i++) {
    const uintptr_t at = (uintptr_t)alive->at[i];
    if (at != 0) all[count++] = (Extent){at, at + alive->size};
  }
  qsort(all, count, sizeof(all[0]), by_address);
  for (size_t i = 1; i < count; i++) {
    if (all[i].start < all[i - 1].end) return true;
  }
  return false;
}

bool is_there(const void* byte) {
  int ends[2];
  if (pipe(ends) != 0) finish(kBroken);
  const bool there = write(ends[1], byte, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return there;
}

void in_thread(void* (*run)(void*), void* argument) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, run, argument) != 0) finish(kBroken);
  pthread_join(thread, NULL);
}

void finish(Outcome outcome) { _exit((int)outcome); }

void finish_through_if(bool through) { finish(through ? kThrough : kAvoided); }
