// Programs that misuse the heap, one case in each process: `misuse_cases NAME`. A case sets up what
// it needs, says "misuse" on standard output, makes its mistake, and ends by an exit status that
// says what came of it (Outcome), unless the allocator has ended the process. What a status claims,
// the case has looked at: contents of neighbours, addresses that are handed out twice.
//
// A case takes the worst place that the allocator offers it: of many objects the one with the
// nearest neighbour. All memory comes by way of the functions below, so that the compiler, which
// knows malloc, cannot conclude what a correct program would do.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  kAvoided = 20,  // the mistake had no effect on anything of the program's
  kThrough = 21,  // it had the effect that somebody who attacks the program wants
  kUnseen = 22,   // nothing broke, and nobody was told: a mistake in the pairing of calls
  kAbsent = 23,   // the allocator has no such function
  kBroken = 24,   // the case could not be set up
} Outcome;

typedef struct Setting Setting;
struct Setting {
  size_t size;   // of the objects
  size_t count;  // bytes beyond their ends
  void (*act)(char* object, const Setting* setting);
};

// Cases that differ only in the size of the objects.
typedef struct {
  const char* section;
  const char* name;
  const char* says;  // the misuse, in words
  void (*run)(const Setting* setting);
  unsigned sizes;  // of kTiny .. kLarge, kMost or kAll; 0: one case, of kTiny
  size_t count;
  void (*act)(char* object, const Setting* setting);
} Family;

enum {
  kTiny = 1,    // 48 bytes: a class of loft's, which they fill
  kPage = 2,    // 4 KiB
  kMedium = 4,  // 256 KiB
  kLarge = 8,   // 8 MiB
  kMost = kTiny | kMedium | kLarge,
  kAll = kMost | kPage,
};

// Each ends with an entry without a name.
extern const Family kBounds[], kFrees[], kPairs[], kStale[], kSizes[], kAttacks[], kMessages[];

enum { kMiB = 1 << 20 };

// malloc, free, realloc, and what they have handed out is there to be read and written.
void* take(size_t size);
void give(void* object);
void* resize(void* object, size_t size);

// What a program keeps to itself: every byte of a neighbour, and of objects before they are freed.
enum { kSecret = 0xA5, kWritten = 'A' };
void fill(void* object, int byte, size_t size);
bool is_all(const void* object, int byte, size_t size);
// Some bytes in a row that only a secret has, read from where it is not to be seen.
bool has_secret(const void* read, size_t size);

// Objects of one size: hundreds of tiny ones, a few of large ones.
enum { kHerd = 512 };
typedef struct {
  size_t size, count;
  char* at[kHerd];
} Herd;
Herd take_herd(size_t size);  // all bytes are kSecret
void give_herd(const Herd* herd);
// An object that begins or ends in these bytes, or covers them. -1: none.
int covering(const Herd* herd, const void* bytes, size_t count);
// The object whose next one behind it, or before it, is nearest.
int nearest(const Herd* herd, bool before);

// The line after which the process may be stopped.
void about_to(void);
// Goes on as a program would: objects of this size come and go, more than a cache keeps.
void settle(size_t size);
// Two objects of this size share a byte, of those alive (or none: null) and those still to come.
bool overlaps(size_t size, const Herd* alive);
// Whether a byte can be read, without trying.
bool is_there(const void* byte);
void in_thread(void* (*run)(void*), void* argument);
__attribute__((noreturn)) void finish(Outcome outcome);
__attribute__((noreturn)) void finish_through_if(bool through);  // or avoided

#ifdef __cplusplus
}
#endif
