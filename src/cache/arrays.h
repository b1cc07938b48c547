// The array of slots that a bin is: how long it may be, and its exchange for another. Arrays count
// against the thread's budget by what they can hold.
#pragma once

#include "cache/thread.h"

namespace loft::bins {

inline constexpr unsigned kMaxCapacity = kMostSlots - 1;
inline constexpr uint8_t kWatchedPushes = 32;  // a bin's first pushes are checked one by one

struct Array {
  void** slots;
  uint16_t capacity;
};

// What all bins of a thread may hold, in bytes.
size_t budget();

// What the first array of a bin holds.
unsigned first_capacity(SizeClass size_class);

// How many objects the thread's own bin holds.
unsigned count(const Thread* thread, SizeClass size_class);

// Sets the highest slot that a push may fill. A bin under watch has none: each push is checked.
void set_limit(Bin& bin, const BinState& state);

// False only for the bin of a thread that died in a fork while it changed the bin's array.
bool whole(const Bin& bin, const BinState& state);

// Gives the bin an array of the next size. False if it is as large as it may be, or without memory.
bool grow(Thread* thread, SizeClass size_class);

// Gives the bin another array, with `objects` objects in it, for its own.
Array exchange(Thread* thread, SizeClass size_class, Array array, unsigned objects);

// The bin, which holds nothing, has no array any more.
void release_array(Thread* thread, SizeClass size_class);

// Lets the thread's arrays of a class hold more, one of them `to` objects in place of `from`. False
// if they hold as much as they may.
bool charge(Thread* thread, SizeClass size_class, unsigned from, unsigned to);

void** make_array(unsigned capacity);  // nullptr without memory
void release_array_of(void** slots, unsigned capacity);

}  // namespace loft::bins
