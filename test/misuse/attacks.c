// What somebody does who can write where the program did not mean to, and wants the allocator to
// hand out an address of his choice, or one object to two owners. The shapes are those of the known
// attacks: upon lists in freed objects, upon headers before and behind objects, upon what lies at
// the end of the heap. Where an allocator keeps none of that, they write into the objects of
// others.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <unistd.h>

#include "cases.h"

// Where the attacker wants an object to be: it looks like a chunk of 64 bytes of an allocator that
// keeps sizes before its objects.
static uint64_t target[1024] __attribute__((aligned(4096)));

static char* make_target(void) {
  for (size_t i = 0; i < sizeof(target) / sizeof(target[0]); i++) target[i] = i % 8 == 1 ? 65 : 0;
  return (char*)&target[2];
}

static bool at_target(const void* object) {
  const uintptr_t at = (uintptr_t)object, from = (uintptr_t)target;
  return from - 64 <= at && at < from + sizeof(target);
}

static bool target_comes(size_t size) {
  for (int i = 0; i < 2 * kHerd; i++) {
    if (at_target(take(size))) return true;
  }
  return false;
}

// ---- Lists in freed objects
// -----------------------------------------------------------------------

static void plain_link(char* object, const Setting* s) {
  (void)s;
  for (int i = 0; i < 4; i++) ((volatile uint64_t*)object)[i] = (uint64_t)(uintptr_t)make_target();
}

// Some allocators hide a link by the address at which it stands.
static void shifted_link(char* object, const Setting* s) {
  (void)s;
  for (int i = 0; i < 4; i++) {
    const uint64_t hidden = (uint64_t)(uintptr_t)(object + 8 * i) >> 12;
    ((volatile uint64_t*)object)[i] = hidden ^ (uint64_t)(uintptr_t)make_target();
  }
}

// A link that is there already, to another freed object, moved by half an object.
static void moved_link(char* object, const Setting* s) {
  for (int i = 0; i < 4; i++) {
    volatile uint64_t* const word = (volatile uint64_t*)object + i;
    if (*word != 0) *word = *word + s->size / 32 * 16;
  }
}

static void poison_list(const Setting* s) {
  Herd herd = take_herd(s->size);
  char* const a = herd.at[1];
  char* const b = herd.at[2];
  herd.at[1] = herd.at[2] = NULL;
  about_to();
  give(a);
  give(b);
  s->act(b, s);
  if (target_comes(s->size)) finish(kThrough);
  finish_through_if(overlaps(s->size, &herd));
}

// What an attacker reads out of freed objects, to learn where things are: addresses.
static bool has_addresses(const char* object, size_t size) {
  for (size_t i = 0; i < size / 8 && i < 64; i++) {
    uint64_t word;
    memcpy(&word, object + 8 * i, 8);
    word &= ((uint64_t)1 << 48) - 2;
    const uint64_t distance = word - (uint64_t)(uintptr_t)object;
    if (distance + ((uint64_t)1 << 32) < (uint64_t)1 << 33 && is_there((char*)(uintptr_t)word)) {
      return true;
    }
  }
  return false;
}

static void* give_some(void* herd) {
  const Herd* const some = herd;
  for (size_t i = 0; i < some->count; i += 2) give(some->at[i]);
  return NULL;
}

static void read_links(const Setting* s) {
  Herd herd = take_herd(s->size);
  about_to();
  if (s->count != 0) {
    in_thread(give_some, &herd);
  } else {
    give_some(&herd);
  }
  bool seen = false;
  for (size_t i = 0; i < herd.count; i += 2) seen |= has_addresses(herd.at[i], s->size);
  finish_through_if(seen);
}

// ---- Headers
// --------------------------------------------------------------------------------------

// The size that may stand before an object becomes another one, and the object is freed: others
// then come to lie upon its neighbours.
static void forge_size(const Setting* s) {
  Herd herd = take_herd(s->size);
  const int victim = nearest(&herd, false);
  char* const object = herd.at[victim];
  uint64_t* const before = (uint64_t*)(object - 16);
  about_to();
  if (!is_there(before)) *(volatile char*)before = 0;
  const uint64_t header[] = {before[0], before[1] & 7};
  const uint64_t size = (s->size + 31) / 16 * 16 * s->count;
  ((volatile uint64_t*)before)[0] = header[0];
  ((volatile uint64_t*)before)[1] = size | (header[1] != 0 ? header[1] : 1);
  give(object);
  herd.at[victim] = NULL;
  for (size_t i = 0; i < herd.count; i++) {
    if (herd.at[i] != NULL && !is_there(herd.at[i])) finish(kThrough);
  }
  finish_through_if(overlaps(size - 16, &herd) || overlaps(s->size, &herd));
}

// One byte 0 behind an object, which may tell that the one before it is free.
static void forge_nul(const Setting* s) {
  Herd herd = take_herd(s->size);
  const int victim = nearest(&herd, false);
  char* const object = herd.at[victim];
  const size_t room = (s->size + 7) / 16 * 16 + 8;
  about_to();
  ((volatile uint64_t*)(object + room - 16))[0] = s->size + 16;
  ((volatile char*)object)[room] = 0;
  const int next = covering(&herd, object + room + 8, 16);
  if (next >= 0 && next != victim) {
    give(herd.at[next]);
    herd.at[next] = NULL;
  }
  finish_through_if(overlaps(s->size * 2, &herd) || overlaps(s->size, &herd));
}

static char* anchor[4];

// A free chunk is made up inside of an object; whoever joins it to its neighbour writes to
// `anchor`.
static void forge_free_chunk(const Setting* s) {
  Herd herd = take_herd(s->size);
  const int victim = nearest(&herd, false);
  char* const object = herd.at[victim];
  const size_t room = (s->size + 7) / 16 * 16 + 8;
  anchor[3] = object;
  volatile uint64_t* const chunk = (volatile uint64_t*)object;
  about_to();
  chunk[0] = 0;
  chunk[1] = (room - 8) | 1;
  chunk[2] = (uint64_t)(uintptr_t)&anchor[0];
  chunk[3] = (uint64_t)(uintptr_t)&anchor[1];
  ((volatile uint64_t*)(object + room - 16))[0] = room - 8;
  volatile uint64_t* const size = (volatile uint64_t*)(object + room);
  *size = *size & ~(uint64_t)1;
  const int next = covering(&herd, object + room + 8, 16);
  if (next >= 0 && next != victim) {
    give(herd.at[next]);
    herd.at[next] = NULL;
  }
  if (anchor[3] != object) finish(kThrough);
  finish_through_if(overlaps(s->size, &herd));
}

// A chunk is made up where the attacker wants an object, and freed.
static void free_made_up(const Setting* s) {
  char* const wanted = make_target();
  about_to();
  give(wanted);
  finish_through_if(target_comes(s->size));
}

// What lies behind the last object says how much is left: endlessly much, and the next object
// reaches to wherever the attacker wants.
static void forge_end(const Setting* s) {
  Herd herd = take_herd(s->size);
  char* last = herd.at[0];
  for (size_t i = 0; i < herd.count; i++) {
    if (herd.at[i] > last) last = herd.at[i];
  }
  make_target();
  about_to();
  volatile uint64_t* const behind = (volatile uint64_t*)(last + s->size);
  for (int i = 0; i < 4; i++) behind[i] = UINT64_MAX;
  const uintptr_t distance = (uintptr_t)target - (uintptr_t)last - s->size - 64;
  void* const between = malloc(distance);
  const bool through = between != NULL && at_target(take(s->size));
  finish_through_if(through || overlaps(s->size, &herd));
}

// ---- The layout
// -----------------------------------------------------------------------------------

static unsigned char* returns_at_once(unsigned char* code) {
#if defined(__x86_64__)
  const unsigned char instructions[] = {0xc3};
#elif defined(__aarch64__)
  const unsigned char instructions[] = {0xc0, 0x03, 0x5f, 0xd6};
#else
#error "what returns from a function here?"
#endif
  memcpy(code, instructions, sizeof(instructions));
  __builtin___clear_cache((char*)code, (char*)code + sizeof(instructions));
  return code;
}

static void execute(const Setting* s) {
  unsigned char* const code = returns_at_once(take(s->size));
  about_to();
  ((void (*)(void))(uintptr_t)code)();
  finish(kThrough);
}

// Each object lies as far from the one before it as that did from its own.
static void foretell_next(const Setting* s) {
  about_to();
  const Herd herd = take_herd(s->size);
  size_t hits = 0;
  for (size_t i = 2; i < herd.count; i++) {
    hits += herd.at[i] - herd.at[i - 1] == herd.at[i - 1] - herd.at[i - 2];
  }
  finish_through_if(hits > (herd.count - 2) / 2);
}

// In two runs of the program: how far the heap is from libc.
static long run_and_measure(void) {
  char command[4200];
  long distance = 0;
  snprintf(command, sizeof(command), "'%s' --distance", (const char*)getauxval(AT_EXECFN));
  FILE* const pipe = popen(command, "r");
  if (pipe == NULL || fscanf(pipe, "%ld", &distance) != 1) finish(kBroken);
  pclose(pipe);
  return distance;
}

void print_distance(void) {
  char* const object = take(48);
  printf("%ld\n", (long)((uintptr_t)object - (uintptr_t)&fscanf));
}

static void foretell_heap(const Setting* s) {
  (void)s;
  // Under a debugger, the system places everything where it was the last time.
  if ((personality(0xffffffff) & ADDR_NO_RANDOMIZE) != 0) finish(kAbsent);
  about_to();
  finish_through_if(run_and_measure() == run_and_measure());
}

#define LISTS "Attacks upon lists in freed objects"
#define HEADERS "Attacks upon sizes and neighbours"
#define LAYOUT "What can be foretold, and executed"

const Family kAttacks[] = {
    {LISTS, "poison", "a link is overwritten by an address", poison_list, kTiny | kPage, 0,
     plain_link},
    {LISTS, "poison-hidden", "by an address as glibc hides it", poison_list, kTiny | kPage, 0,
     shifted_link},
    {LISTS, "poison-moved", "a link is moved into an object", poison_list, kTiny | kPage, 0,
     moved_link},
    {LISTS, "links-read", "addresses are read from freed objects", read_links, kTiny | kPage, 0,
     NULL},
    {LISTS, "links-read-thread", "the same, freed by another thread", read_links, kTiny | kPage, 1,
     NULL},
    {HEADERS, "size-twice", "the size before an object is doubled", forge_size, kAll, 2, NULL},
    {HEADERS, "size-eightfold", "or is eightfold", forge_size, kMost, 8, NULL},
    {HEADERS, "nul-behind", "one 0 behind an object", forge_nul, kTiny | kPage, 0, NULL},
    {HEADERS, "chunk-within", "a free chunk made up within an object", forge_free_chunk,
     kTiny | kPage, 0, NULL},
    {HEADERS, "chunk-elsewhere", "a chunk made up outside of the heap", free_made_up, 0, 0, NULL},
    {HEADERS, "end-of-heap", "what is behind the last object", forge_end, kTiny | kPage, 0, NULL},
    {LAYOUT, "execute", "code in an object is executed", execute, kAll, 0, NULL},
    {LAYOUT, "order", "where the next object will be", foretell_next, kTiny | kPage, 0, NULL},
    {LAYOUT, "place", "how far the heap is from libc", foretell_heap, 0, 0, NULL},
    {0},
};
