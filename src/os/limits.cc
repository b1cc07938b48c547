#include "os/limits.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "base/macros.h"
#include "base/options.h"
#include "base/probe.h"

namespace loft::limits {

// All relaxed, here and below: each is an independent number.
constinit Atomic<uint32_t> reasons{0};
constinit Atomic<size_t> share{kNone};

namespace {

constinit Atomic<bool> group_tight{false};  // the group's bytes exceed its limit, counted or not

constexpr size_t kLeastDirty = 256 * 1024;  // kept under any limit: a few spans, for reuse

constinit Atomic<size_t> group_high{kNone};
constinit Atomic<size_t> group_max{kNone};
constinit Atomic<size_t> group_limit{kNone};
constinit Atomic<size_t> group_used{0};
constinit Atomic<size_t> address_space{kNone};
constinit Atomic<size_t> cache_count{0};
constinit Atomic<size_t> soft_hits{0};
constinit Atomic<size_t> hard_refusals{0};

size_t option_limit(const Atomic<uint64_t>& option) {
  const uint64_t bytes = get(option);
  return bytes == 0 ? kNone : bytes;
}

// Whether loft is tight, with hysteresis: the state ends only well below the limit. With one
// threshold for both directions, loft would do nothing but change over.
bool above(size_t bytes, size_t limit, bool was_above) {
  return limit != kNone && bytes > (was_above ? near(limit) : limit);
}

bool has(Reason reason) { return (reasons.load(memory_order_relaxed) & reason) != 0; }

// A bit for each reason, so that threads that learn of two reasons at once lose neither.
LOFT_AT_LOAD void set(Reason reason, bool is) {
  uint32_t before = reasons.load(memory_order_relaxed);
  uint32_t after = 0;
  do {
    after = is ? before | reason : before & ~uint32_t{reason};
    if (after == before) return;
  } while (
      !reasons.compare_exchange_strong(before, after, memory_order_relaxed, memory_order_relaxed));
  if (is && reason != kShare) soft_hits.fetch_add(1, memory_order_relaxed);
}

// Of two threads that do this at once, the first may write last: what comes next is right again.
LOFT_AT_LOAD void follow_share() {
  const size_t all = scarce_cached();
  share.store(all == kNone ? kNone : all / caches(), memory_order_relaxed);
  set(kShare, all != kNone);
}

}  // namespace

size_t caches() { return loft::most<size_t>(cache_count.load(memory_order_relaxed), 1); }

size_t hard() {
  const size_t own = option_limit(options.hard_limit);
  if (get(options.cgroup) != kGroupHard) return own;
  // The rest is for other memory that counts: the system's tables, stacks, other processes of the
  // group.
  return least(own, near(group_max.load(memory_order_relaxed)));
}

size_t soft() {
  const size_t own = least(option_limit(options.soft_limit), near(hard()));
  if (get(options.cgroup) == kGroupOff) return own;
  return least(own, least(group_high.load(memory_order_relaxed),
                          near(group_max.load(memory_order_relaxed))));
}

void options_changed() {
  set(kGroup, group_tight.load(memory_order_relaxed) && get(options.cgroup) == kGroupWatch);
}

LOFT_AT_LOAD void set_address_space(size_t bytes) {
  address_space.store(bytes, memory_order_relaxed);
  follow_share();
}

void count_caches(size_t more) {
  cache_count.fetch_add(more, memory_order_relaxed);
  if (cache_share() != kNone) follow_share();
}

size_t scarce_dirty() {
  const size_t scarce =
      least(group_max.load(memory_order_relaxed), address_space.load(memory_order_relaxed));
  return scarce == kNone ? kNone : scarce / 16;
}

size_t kept_when_tight() {
  const size_t most_kept = least<size_t>(get(options.dirty_bytes), scarce_dirty());
  return least(most_kept, loft::most(soft() / 64, kLeastDirty));
}

void weigh(size_t committed) { set(kOwn, above(committed, soft(), has(kOwn))); }

LOFT_AT_LOAD void set_group(const Group& group) {
  group_high.store(group.high, memory_order_relaxed);
  group_max.store(group.max, memory_order_relaxed);
  group_limit.store(group.limit, memory_order_relaxed);
  group_used.store(group.used, memory_order_relaxed);
  group_tight.store(above(group.used, near(group.limit), group_tight.load(memory_order_relaxed)),
                    memory_order_relaxed);
  follow_share();
  options_changed();
}

Group group() {
  Group group;
  group.high = group_high.load(memory_order_relaxed);
  group.max = group_max.load(memory_order_relaxed);
  group.limit = group_limit.load(memory_order_relaxed);
  group.used = group_used.load(memory_order_relaxed);
  return group;
}

void note_refusal(size_t committed, size_t bytes) {
  LOFT_PROBE2(loft, limit, bytes, committed);
  const size_t limit = hard();
  if (limit == kNone) return;
  if (bytes > limit || committed > limit - bytes) {
    hard_refusals.fetch_add(1, memory_order_relaxed);
  }
}

Totals totals() {
  return {group_limit.load(memory_order_relaxed), group_used.load(memory_order_relaxed),
          soft_hits.load(memory_order_relaxed), hard_refusals.load(memory_order_relaxed)};
}

}  // namespace loft::limits
