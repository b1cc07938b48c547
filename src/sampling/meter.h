// What a thread's blocks do while a profile is taken. malloc's fast path stays as it is: it takes
// objects from where the table of the block names, and that is then a second set of bins. These are
// filled by the slow path alone, from the ordinary bins, and never beyond the next sample. So the
// slow path knows what was handed out, and finds itself called when the sample is due. Frees go to
// the ordinary bins as ever.
//
// A processor's block (owner=cpu) hands out nothing from its second bins: each of its allocations
// takes the slow path.
//
// hardened=guard takes samples, too, and keeps the blocks turned. Its second bins are short: what
// they hold has been written to.
#pragma once

#include "cache/thread_cache.h"

namespace loft::sampling {

// Turns all blocks to their second bins, or back. Others may use their blocks meanwhile: each entry
// of a table is one store, and either value of it serves.
void turn_all(bool on);

// Turns all blocks, and those made from now on, and never back. Nobody fills the second bins
// (hardened=full): each allocation takes the slow path. Or whoever fills them clears the first word
// of each object (hardened=guard).
void turn_for_good(bool clears);

// Whether blocks are turned. Relaxed: a thread that sees a change late follows it a little later.
extern LOFT_HIDDEN Atomic<bool> turned;
inline bool is_turned() { return turned.load(memory_order_relaxed); }

// The same for one block, if its tables lag behind in this class: two threads may have turned them
// at once, one on and one off.
void settle(ThreadCache* thread, SizeClass size_class);

// For a block that has just been added to the list: turn_all may have walked that before.
void join(ThreadCache* thread);

// Whether the next object of the class is the one on which a sample has fallen. It is told once.
bool is_due(ThreadCache* thread, SizeClass size_class);

// Moves objects from the ordinary bin of the class to the second one, which is empty, and charges
// them: as many as are there, up to a limit, or up to the object on which the next sample falls.
enum class Filled : uint8_t {
  kNothing,  // there is none, or the block has no second bins
  kYes,
  kDue,  // the sample falls on the first
};
Filled fill(ThreadCache* thread, SizeClass size_class);

// A bin with fewer objects fills too little: each would come by the slow path.
unsigned short_of(SizeClass size_class);
inline constexpr unsigned kMostShort = 8;

// Puts an object that nobody has seen into the ordinary bin.
void put_back(ThreadCache* thread, SizeClass size_class, void* p);

// nullptr if the second bin is empty.
void* pop(ThreadCache* thread, SizeClass size_class);

// Returns all objects in the second bins to their heaps. They stay charged: that no sample fell on
// them is known, and would be lost with a charge that is taken back. By the thread itself, or who
// has its block.
void empty(ThreadCache* thread);

// Whether the object is in the second bin.
bool holds(const ThreadCache* thread, SizeClass size_class, const void* p);

// Objects in the second bin, and each of them. Read beside the thread.
unsigned held(const ThreadCache* thread, SizeClass size_class);
void visit(const ThreadCache* thread, SizeClass size_class,
           void (*visit)(void* context, const void* p), void* context);

}  // namespace loft::sampling
