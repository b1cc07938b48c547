// The limits of the memory that loft has from the system. They come from the options and from the
// control group of this process. The amount that counts is span::committed(): memory that may be
// resident, including resident free spans and loft's own tables.
//
//   hard   No span may exceed it: the request is refused. The tables count, but are never refused,
//          because giving memory back needs them.
//   soft   It may be exceeded. loft is then `tight`: it keeps little free memory and small caches.
//          loft is also tight (a) near the hard limit; (b) with `cgroup=watch`, while the
//          group as a whole is near a limit, whichever process has the memory.
//
// Nothing here is locked. The numbers are independent of each other and are read on slow paths,
// where a stale value does no harm.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/macros.h"
#include "os/os.h"

namespace loft::limits {

inline constexpr size_t kNone = os::kNoLimit;

// The limit in force; kNone if there is none.
size_t soft();
size_t hard();

// The value from which `limit` counts as near: a sixteenth below it. Little is kept from there on,
// so before the limit is met.
constexpr size_t near(size_t limit) { return limit == kNone ? kNone : limit - limit / 16; }

// Whether to keep little: the reasons, of which one is enough. Only limits.cc writes the word.
enum Reason : uint32_t {
  kOwn = 1,    // loft's bytes exceed the soft limit
  kGroup = 2,  // the group's do, and it is watched
  kShare = 4,  // caches only: they have a budget together (cache_share)
};
extern LOFT_HIDDEN Atomic<uint32_t> reasons;
inline bool tight() { return (reasons.load(memory_order_relaxed) & (kOwn | kGroup)) != 0; }
inline bool bounds_caches() { return reasons.load(memory_order_relaxed) != 0; }

// An option has changed. Does not read the group's limits again: that would open files while the
// program runs.
void options_changed();

// The most bytes of free spans that may stay resident, however soon they may be used again: a
// sixteenth of the group's memory limit or of the process's address space limit, whichever is less.
// kNone without such a limit.
size_t scarce_dirty();

// What all caches together may hold, of free objects: half as much. Medium objects that free's fast
// path keeps may be as much again, so that all of it is an eighth of the limit.
inline size_t scarce_cached() {
  const size_t scarce = scarce_dirty();
  return scarce == kNone ? kNone : scarce / 2;
}

// What each of them may hold: an equal share. kNone without such a limit.
extern LOFT_HIDDEN Atomic<size_t> share;
inline size_t cache_share() { return share.load(memory_order_relaxed); }

// How many caches are in use: 1 or more.
size_t caches();
// So many caches have come into use; modulo 2^64.
void count_caches(size_t more);

// The limit on the process's address space when the library is loaded; kNone if there is none.
void set_address_space(size_t bytes);

// How many bytes of unused memory stay resident when memory is tight: a 64th of the soft limit.
// That is small beside the limit, and enough for memory that is freed and allocated again at once.
size_t kept_when_tight();

// Called under the lock of the spans, with the present amount, whenever it has changed.
void weigh(size_t committed);

// --- The process's control group, of either version.

// The limits that the system puts on the group of this process and on those that contain it, which
// bind it, too. Of each kind, the least.
struct Group {
  size_t high = kNone;  // bytes above which the system reclaims the group's memory and slows it
  size_t max = kNone;   // bytes that the group cannot exceed: the system stops it instead
  // The byte limit that is nearest to being met, and the bytes that count against it. Once more
  // than half of the limit is used, memory that the system can drop without loss, such as cached
  // files, does not count.
  size_t limit = kNone;
  size_t used = 0;
};

// What is read of each group: `max` alone, which is then the limit that is told; or all.
enum class Read { kMax, kAll };

// Reads the limits of the group. It opens files, so no thread may use it that shares a table of
// file descriptors with a running program.
//
// `last` is an earlier result. Its limits stay in force if the present ones may exist but cannot be
// read. `used` is then unknown, and 0. `root` is a prefix of every path, for tests.
Group read_group(Read what, const Group& last = Group(), const char* root = "");

// Puts the limits of a group in force: when the library is loaded, and from the thread that watches
// the group. One thread at a time.
void set_group(const Group& group);
Group group();  // as last set; without limits at first

// Notes a refused request. It counts if `bytes` more would exceed the hard limit.
void note_refusal(size_t committed, size_t bytes);

struct Totals {
  size_t group_limit;  // the limit of the group nearest to being met; kNone
  size_t group_used;   // counted against it, in all processes of the group
  size_t soft_hits;
  size_t hard_refusals;
};
Totals totals();

}  // namespace loft::limits
