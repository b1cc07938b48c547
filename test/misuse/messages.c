// Objects that another thread has freed, and that are written to before they come home. An
// allocator may keep there what it has to tell their owner.
#include <stdint.h>
#include <string.h>

#include "cases.h"

// Word by word: libc's functions may be checked.
static void copy(void* to, const void* from, size_t bytes) {
  volatile uint64_t* const out = to;
  const volatile uint64_t* const in = from;
  for (size_t i = 0; i < bytes / sizeof(*out); i++) out[i] = in[i];
}

// Objects of the main thread: of every two, one is to be freed by others, and one stays.
static Herd freed, alive;
static char before[kHerd][48];  // what the freed ones held while they were on their way
static uint64_t made_up[512] __attribute__((aligned(4096)));

typedef struct {
  size_t first, step, end;
} Some;

static void* give_some(void* some) {
  const Some which = *(const Some*)some;
  for (size_t i = which.first; i < which.end; i += which.step) give(freed.at[i]);  // or null
  return NULL;
}

static void take_both(size_t size) {
  const Herd all = take_herd(size);
  freed = alive = (Herd){.size = size, .count = all.count / 2};
  for (size_t i = 0; i < all.count / 2; i++) {
    freed.at[i] = all.at[2 * i];
    alive.at[i] = all.at[2 * i + 1];
  }
}

static void free_afar(Some some) { in_thread(give_some, &some); }

// Something was written to it on its way.
static bool carries(size_t i) { return !is_all(freed.at[i], kSecret, 16); }

static uint64_t* words(size_t i) { return (uint64_t*)freed.at[i]; }

static void by_zeros(void) {
  for (size_t i = 0; i < freed.count; i++) fill(freed.at[i], 0, freed.size);
}

static void by_text(void) {
  for (size_t i = 0; i < freed.count; i++) fill(freed.at[i], kWritten, freed.size);
}

static void by_pointers(void) {
  for (size_t i = 0; i < freed.count; i++) {
    for (size_t k = 0; k < freed.size / 8; k++) words(i)[k] = (uint64_t)(uintptr_t)alive.at[i];
  }
}

// The first word stays: all that it brings home is made to be more.
static void by_more_bits(void) {
  for (size_t i = 0; i < freed.count; i++) fill(freed.at[i] + 8, 0xff, freed.size - 8);
}

// The same of each word by itself, without those that hold neither secret nor zero.
static void by_another_bit(void) {
  for (size_t i = 0; i < freed.count; i++) {
    for (size_t k = 1; k < freed.size / 8; k++) {
      if (!is_all(words(i) + k, kSecret, 8)) words(i)[k] |= words(i)[k] << 1 | words(i)[k] >> 1;
    }
  }
}

// The upper 16 bits stay, as do those by which a word may tell its kind.
static void by_a_link(void) {
  for (size_t i = 0; i < sizeof(made_up) / 8; i++) made_up[i] = UINT64_MAX;
  for (size_t i = 0; i < freed.count; i++) {
    const uint64_t kind = words(i)[0] & ~(((uint64_t)1 << 48) - 1);
    words(i)[0] = kind | (uint64_t)(uintptr_t)made_up;
  }
}

// The upper 16 bits stay: the first of them is the last one, too, and leads nowhere, or to itself.
static void by_an_end(void) {
  for (size_t i = 0; i < freed.count; i++) {
    const uint64_t kind = words(i)[0] & ~(((uint64_t)1 << 48) - 1);
    words(i)[0] = kind | (uint64_t)(uintptr_t)freed.at[i] | 1;
  }
}

static void by_a_loop(void) {
  for (size_t i = 0; i < freed.count; i++) {
    const uint64_t kind = words(i)[0] & ~(((uint64_t)1 << 48) - 1);
    words(i)[0] = kind | (uint64_t)(uintptr_t)freed.at[i];
  }
}

// Of every two that carry something, each is given what the other one held, from byte `first` on.
static void exchange_contents(size_t first) {
  for (size_t i = 0, last = freed.count; i < freed.count; i++) {
    if (!carries(i)) continue;
    if (last == freed.count) {
      last = i;
      continue;
    }
    char held[48];
    const size_t bytes = sizeof(held) - first;
    copy(held, freed.at[last] + first, bytes);
    copy(freed.at[last] + first, freed.at[i] + first, bytes);
    copy(freed.at[i] + first, held, bytes);
    last = freed.count;
  }
}

// The link of each stays as it is.
static void by_payloads(void) { exchange_contents(8); }
static void by_one_another(void) { exchange_contents(0); }

__attribute__((noreturn)) static void finish_sent(size_t size) {
  bool through = overlaps(size, &alive);
  for (size_t i = 0; i < alive.count; i++) {
    if (alive.at[i] != NULL) through |= !is_all(alive.at[i], kSecret, size);
  }
  settle(size);
  finish_through_if(through);
}

static void run(const Setting* s, void (*forge)(void)) {
  take_both(s->size);
  free_afar((Some){0, 1, s->count == 2 ? 2 : freed.count});
  about_to();
  forge();
  finish_sent(s->size);
}

static void zeros(const Setting* s) { run(s, by_zeros); }
static void text(const Setting* s) { run(s, by_text); }
static void pointers(const Setting* s) { run(s, by_pointers); }
static void more_bits(const Setting* s) { run(s, by_more_bits); }
static void another_bit(const Setting* s) { run(s, by_another_bit); }
static void a_link(const Setting* s) { run(s, by_a_link); }

static void an_end(const Setting* s) { run(s, by_an_end); }
static void a_loop(const Setting* s) { run(s, by_a_loop); }

// Of two threads, so that there are two messages at least.
static void exchange(const Setting* s, void (*forge)(void)) {
  take_both(s->size);
  free_afar((Some){0, 2, freed.count});
  free_afar((Some){1, 2, freed.count});
  about_to();
  forge();
  finish_sent(s->size);
}

static void one_another(const Setting* s) { exchange(s, by_one_another); }
static void payloads(const Setting* s) { exchange(s, by_payloads); }

// All are freed, and come home; then those are freed once more that have carried what brought the
// others home, and carry again what they did then. Where all or none did, every fourth one.
static void what_was(const Setting* s) {
  take_both(s->size);
  free_afar((Some){0, 1, freed.count});
  bool again[kHerd] = {false};
  size_t carriers = 0;
  about_to();  // read what was freed
  for (size_t i = 0; i < freed.count; i++) {
    copy(before[i], freed.at[i], sizeof(before[i]));
    again[i] = carries(i);
    carriers += again[i];
  }
  const bool any = carriers == 0 || carriers > freed.count / 2;
  bool home[kHerd] = {false};
  for (size_t tries = 0; tries < 4096; tries++) {
    char* const object = take(s->size);
    for (size_t i = 0; i < freed.count; i++) home[i] |= object == freed.at[i];
    fill(object, kSecret, s->size);
  }
  alive = freed;
  for (size_t i = 0; i < freed.count; i++) {
    if (!home[i]) alive.at[i] = NULL;
    if (!home[i] || !(any ? i % 4 == 0 : again[i])) freed.at[i] = NULL;
    if (freed.at[i] != NULL) alive.at[i] = NULL;
  }
  free_afar((Some){0, 1, freed.count});
  for (size_t i = 0; i < freed.count; i++) {
    if (freed.at[i] != NULL && carries(i)) copy(freed.at[i], before[i], sizeof(before[i]));
  }
  finish_sent(s->size);
}

#define SECTION "Writes to what another thread has freed"

const Family kMessages[] = {
    {SECTION, "sent-zeros", "zeros", zeros, kTiny | kPage, 0, NULL},
    {SECTION, "sent-text", "text", text, kTiny | kPage, 0, NULL},
    {SECTION, "sent-pointers", "pointers to objects", pointers, kTiny | kPage, 0, NULL},
    {SECTION, "sent-more", "all bits behind the first word", more_bits, kTiny | kPage, 0, NULL},
    {SECTION, "sent-bit", "one bit more beside each", another_bit, kTiny | kPage, 0, NULL},
    {SECTION, "sent-bit-of-two", "the same, two were freed", another_bit, kTiny | kPage, 2, NULL},
    {SECTION, "sent-link", "a link to what was made up", a_link, kTiny | kPage, 0, NULL},
    {SECTION, "sent-end", "a link that says that it is the last", an_end, kTiny | kPage, 0, NULL},
    {SECTION, "sent-loop", "a link to the object itself", a_loop, kTiny | kPage, 0, NULL},
    {SECTION, "sent-swapped", "their contents are exchanged", one_another, kTiny | kPage, 0, NULL},
    {SECTION, "sent-swapped-behind", "all but their first words", payloads, kTiny | kPage, 0, NULL},
    {SECTION, "sent-again", "what they held an earlier time", what_was, kTiny | kPage, 0, NULL},
    {0},
};
