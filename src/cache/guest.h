// What the core calls of its guests: of the parts of loft that not every program uses. The core
// knows no guest, only these two tables; api/guests.cc fills them in. What guests do to malloc and
// free goes by another table (malloc/policy.h).
#pragma once

#include <cstddef>

#include "base/macros.h"
#include "base/size_class.h"
#include "cache/thread_cache.h"
#include "space/pagemap.h"

namespace loft {

struct ObjectRange {
  void* start;
  size_t size;  // usable bytes
};

// The two steps in which a fork takes all locks: before those of the threads' blocks and of the
// heaps, and after them.
enum class LockStep : uint8_t { kBeforeBlocks, kAfterHeaps };

// A null function means that the guest has nothing to do. Each one returns at once where the guest
// is not in use.
struct Guest {
  // --- What the guest keeps of a block: by its thread, or by who has it. ---

  void (*join)(ThreadCache* thread) = nullptr;    // the block has just been added to the list
  void (*review)(ThreadCache* thread) = nullptr;  // now and then, in a slow path
  // Whoever keeps an object there sets ThreadCache::has_guests; `empty` is not called before.
  //
  // Returns all objects that the block holds for the guest: to its bins, its batches or its heap,
  // which the caller empties next.
  void (*empty)(ThreadCache* thread) = nullptr;
  // In the child of a fork, the same of a thread that the child does not have: it may have been
  // between any two stores.
  void (*inherit)(ThreadCache* dead) = nullptr;
  void (*begin_child)(ThreadCache* thread) = nullptr;  // in the child of a fork, of each block

  // --- The same, beside the thread. ---

  size_t (*held)(const ThreadCache* thread, SizeClass c) = nullptr;  // objects in slabs
  size_t (*held_in_runs)(const ThreadCache* thread) = nullptr;       // bytes of medium objects
  // Each object in a slab that the block holds.
  void (*visit_held)(const ThreadCache* thread, void (*visit)(void* context, const void* p),
                     void* context) = nullptr;

  // --- The process. ---

  void (*lock)(LockStep step) = nullptr;
  void (*unlock)(LockStep step, bool child) = nullptr;
  // Now and then, seldom more often than once a tick. `bytes`: what the look may read. True if
  // nothing is left to look at.
  bool (*look)(size_t bytes) = nullptr;
  void (*begin_looks)() = nullptr;  // all is to be looked at again
  // Purges what has been unused for some ticks. True if nothing is left to do.
  bool (*purge_idle)(unsigned ticks) = nullptr;
  size_t (*purge)() = nullptr;  // all unused memory; returns the bytes
};

extern LOFT_HIDDEN const Guest* const guests[];
extern LOFT_HIDDEN const unsigned guest_count;

// Objects that lie in memory of a guest: its pagemap entries are of the kind kGuest. As in Policy,
// where functions have the same names.
struct GuestObjects {
  void (*free)(const char* call, void* p, Entry entry);
  // nullptr without memory, and the object is unchanged. It stays only at a multiple of
  // `alignment`.
  void* (*reallocate)(const char* call, void* p, Entry entry, size_t size, size_t alignment);
  bool (*expand)(const char* call, void* p, Entry entry, size_t size);
  size_t (*usable_size)(const char* call, const void* p, Entry entry);
  ObjectRange (*object_of)(const void* p, Entry entry);  // {nullptr, 0}: there is none
  // What is wrong with an address outside of loft's memory, for a report. nullptr: it is nobody's.
  const char* (*what_is_wrong)(const void* p);
};
extern LOFT_HIDDEN const GuestObjects guest_objects;

namespace guest {

void join(ThreadCache* thread);
void review(ThreadCache* thread);
void empty_slow(ThreadCache* thread);
LOFT_ALWAYS_INLINE void empty(ThreadCache* thread) {
  if (LOFT_UNLIKELY(thread->has_guests)) empty_slow(thread);
}
void inherit(ThreadCache* dead);
void begin_child(ThreadCache* thread);
size_t held(const ThreadCache* thread, SizeClass c);
size_t held_in_runs(const ThreadCache* thread);
void visit_held(const ThreadCache* thread, void (*visit)(void* context, const void* p),
                void* context);
void lock(LockStep step);
void unlock(LockStep step, bool child);
bool look(size_t bytes);
void begin_looks();
bool purge_idle(unsigned ticks);
size_t purge();

}  // namespace guest
}  // namespace loft
