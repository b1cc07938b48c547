// The limits of what loft has from the system, from the options and from the group of processes
// that this one is in. What counts is span::committed(): what may be resident, free spans that are
// still there and loft's own tables included.
//
//   hard   never exceeded by a span: the request is refused. The tables count and are never
//          refused, because giving memory back needs them. Of a large object its pages count, and
//          what lies behind them in its granules is given back (large/tails.h).
//   soft   exceeded, but then loft is `tight`: little free memory stays, caches are small. It is
//          so, too, before the hard limit is met, and, where the group is watched (option
//          `watch_group`), while it is near a limit as a whole, whoever of it has the memory.
//
// Nothing here is locked: numbers on their own, read on slow paths, of which a late one does no
// harm.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/macros.h"
#include "os/os.h"

namespace loft::limits {

inline constexpr size_t kNone = os::kNoLimit;

// In force now, kNone without one.
size_t soft();
size_t hard();

// What `limit` is near from: a sixteenth before it, so that little is kept before it is met.
constexpr size_t near(size_t limit) { return limit == kNone ? kNone : limit - limit / 16; }

// Whether to keep little. The first two are written in limits.cc alone.
extern LOFT_HIDDEN Atomic<bool> own_tight;    // our own bytes are above the soft limit
extern LOFT_HIDDEN Atomic<bool> group_tight;  // the group's are; whatever the option `cgroup` says
bool group_counts();
inline bool tight() {
  return own_tight.load(memory_order_relaxed) ||
         (LOFT_UNLIKELY(group_tight.load(memory_order_relaxed)) && group_counts());
}

// How many bytes of free spans may stay resident at all, however soon they may be used again: a
// sixteenth of the memory that the group may have, or of the addresses that the process may. kNone
// without such a limit.
size_t scarce_dirty();
// The same, or the option's where that is less.
size_t most_dirty();

// The limit on the process's addresses when the library is loaded; kNone if there is none.
void set_address_space(size_t bytes);

// How many bytes of free spans stay resident, where there is time to give them back. Where it is
// tight, a 64th of the soft limit: small beside it, and enough for what is freed and allocated
// again at once. Where no background thread gives back what stays idle, no more than glibc's malloc
// may keep.
size_t dirty_kept();

// Whether a background thread gives memory back.
void set_attended(bool is);

// Called with what loft has now whenever that has changed, under the lock of the spans.
void weigh(size_t committed);

// What was found out about the group: when the library is loaded, and by who watches it. Any
// thread, one at a time.
void set_group(const os::Group& group);
os::Group group();  // as it was set; none at first

// A request was refused. Counts if the hard limit is the reason: it is met by `bytes` more.
void note_refusal(size_t committed, size_t bytes);

struct Totals {
  size_t group_limit;  // of the limits of the group, the one that is nearest to being met; kNone
  size_t group_used;   // what counts against it, of all the group's processes
  size_t processors;   // that the group may use at a time; kNone: any
  unsigned long soft_hits;
  unsigned long hard_refusals;
};
Totals totals();

}  // namespace loft::limits
