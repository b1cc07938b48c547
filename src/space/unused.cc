#include "space/unused.h"

#include "base/bits.h"
#include "base/idle.h"
#include "base/look.h"
#include "base/options.h"
#include "os/limits.h"
#include "space/free_spans.h"
#include "space/ledger.h"

namespace loft::unused {

// Relaxed, here and below: each is a number by itself, and a stale one purges a little too early or
// too late.
constinit Atomic<size_t> gone{0};

namespace {

constexpr size_t kShareOfUse = 8;
constexpr size_t kHeapsShare = 4;  // of the bound, for what lies in heaps that grow
constexpr size_t kSlack = 8;       // a purge goes down by this share of the bound more
constexpr size_t kStep = 32;  // and the next one is due when this share more is unused than it left

// In slabs, runs and messages; modulo 2^64. All threads write to it, so nothing else is in its
// line.
struct alignas(64) Alone {
  Atomic<size_t> bytes{0};
};
constinit Alone in_heaps;

alignas(64) constinit Atomic<size_t> extra{0};  // of the bound, for what is wanted again
constinit Atomic<size_t> left[kScopes];         // the least total since a purge left it
constinit Atomic<bool> grows{false};            // while more than its share lies in heaps
constinit Atomic<size_t> wanted{0};             // taken since the last purge

// By whoever purges, or ticks.
constinit Atomic<uint64_t> purged_at{0};
constinit Atomic<size_t> least_seen{~size_t{0}};
constinit Atomic<uint32_t> ticks_seen{0};

constexpr uint64_t kMillisecond = 1'000'000;

uint64_t decay_ns() {
  constexpr uint64_t kUsual = 500;
  const uint64_t decay = get(options.decay_ms);
  return (decay == 0 ? kUsual : least<uint64_t>(decay, 1000'000'000)) * kMillisecond;
}

size_t bound_without_extra(Scope scope) {
  const size_t asked = get(options.dirty_bytes);
  return most<size_t>(scope == kAll ? asked : asked / kHeapsShare,
                      span::ledger::used() / kShareOfUse);
}

bool is_too_much(Scope scope, size_t now) {
  const size_t most_kept = bound(scope);
  // Where what cannot go exceeds the bound by far, purges are farther apart.
  const size_t before = left[scope].load(memory_order_relaxed);
  const bool is_stuck = before > most_kept + most_kept / 4;
  return now > most_kept && now > before + most_kept / (is_stuck ? kSlack : kStep);
}

bool see_scope(Scope scope) {
  const size_t now = total(scope);
  if (now < left[scope].load(memory_order_relaxed)) left[scope].store(now, memory_order_relaxed);
  return is_too_much(scope, now);
}

}  // namespace

size_t total(Scope scope) {
  const auto heaps = static_cast<ptrdiff_t>(in_heaps.bytes.load(memory_order_relaxed));
  const size_t now = heaps > 0 ? static_cast<size_t>(heaps) : 0;
  if (scope == kInHeaps) return now;
  const size_t spans = free_spans::dirty_bytes();
  const size_t refused = free_spans::refused_bytes.get();
  return spans - least(spans, refused) + now;
}

size_t bound(Scope scope) {
  if (LOFT_UNLIKELY(limits::tight())) return limits::kept_when_tight();
  const size_t asked = get(options.dirty_bytes);
  // Who asks for less than is usual gets no more than that.
  if (asked < kDirtyBytes) return least(asked, limits::scarce_dirty());
  const size_t without = bound_without_extra(scope);
  const size_t more = least(extra.load(memory_order_relaxed), ~without);
  return least(without + more, limits::scarce_dirty());
}

bool is_too_much() { return grows.load(memory_order_relaxed) || is_too_much(kAll, total()); }

void tell(size_t bytes) {
  in_heaps.bytes.fetch_add(bytes, memory_order_relaxed);
  see();
}

void see() {
  if (LOFT_UNLIKELY(see_scope(kAll))) look_soon();
}

void see_growth() {
  // Where limits ask for less, the bound of all is as low.
  if (LOFT_LIKELY(total(kInHeaps) <= get(options.dirty_bytes) / kHeapsShare)) return;
  if (!see_scope(kInHeaps)) return;
  grows.store(true, memory_order_relaxed);
  look_soon();
}

size_t excess(Scope scope) {
  if (scope == kInHeaps && !grows.load(memory_order_relaxed)) return 0;
  const size_t now = total(scope);
  const size_t most_kept = bound(scope);
  return now - least(now, most_kept - most_kept / kSlack);
}

void count_wanted(size_t bytes) { wanted.fetch_add(bytes, memory_order_relaxed); }

void adapt(uint64_t now_ns) {
  const size_t went = gone.load(memory_order_relaxed);
  if (went == 0) return;
  const size_t back = least(went, wanted.exchange(0, memory_order_relaxed));
  if (now_ns > purged_at.load(memory_order_relaxed) + decay_ns()) {
    return gone.store(0, memory_order_relaxed);
  }
  gone.fetch_add(-back, memory_order_relaxed);  // other threads add to it
  const size_t before = extra.load(memory_order_relaxed);
  extra.store(before + least(back, bound(kAll)), memory_order_relaxed);
}

void note_purged(size_t bytes, uint64_t now_ns) {
  gone.fetch_add(bytes, memory_order_relaxed);
  purged_at.store(now_ns, memory_order_relaxed);
}

void note_left(size_t all, size_t of_heaps) {
  left[kAll].store(least(all, total(kAll)), memory_order_relaxed);
  if (!grows.load(memory_order_relaxed)) return;
  left[kInHeaps].store(least(of_heaps, total(kInHeaps)), memory_order_relaxed);
  grows.store(false, memory_order_relaxed);
}

void tick() {
  least_seen.store(least(least_seen.load(memory_order_relaxed), total(kAll)), memory_order_relaxed);
  const uint32_t ticks = ticks_seen.load(memory_order_relaxed) + 1;
  ticks_seen.store(ticks, memory_order_relaxed);
  if (ticks % span::kDecayTicks != 0) return;
  const size_t idle = least_seen.exchange(~size_t{0}, memory_order_relaxed);
  const size_t more = extra.load(memory_order_relaxed);
  if (idle >= bound_without_extra(kAll) / 2) extra.store(more / 2, memory_order_relaxed);
}

}  // namespace loft::unused
