#include "large/tails.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "base/macros.h"
#include "os/fault.h"
#include "os/lock.h"
#include "os/os.h"
#include "space/discards.h"
#include "space/span.h"
#include "space/window.h"

namespace loft::tails {

namespace {

// What is known of a granule.
//
//   record   pages 6 | tick 8 | listed 1 | claimed 1. `pages`: from the end of the object to the
//            end of the granule; 0: no tail. `tick`: when it was noted. Written by the object's
//            owner, except `listed` and `claimed`.
//   next     the next granule of the list that the granule is in, plus 1; 0 ends it. Written by
//            whoever puts the granule into a list.
//
// listed: the granule is in one of the lists below, or on its way there. An owner that sets it puts
// the granule into `noted`. Only a purge that has taken the granule out clears it. A tail that the
// owner forgets leaves its granule in the list until then.
// claimed: the tail is being purged.
struct Tail {
  Atomic<uint32_t> record;
  Atomic<uint32_t> next;
};
static_assert(sizeof(Tail) == kTailRecord);

using Record = uint32_t;
constexpr Record kListed = 1;
constexpr Record kClaimed = 2;
constexpr unsigned kTickShift = 2;
constexpr unsigned kPagesShift = 10;
static_assert(kGranule / 4096 < 1 << (16 - kPagesShift));

unsigned pages_in(Record record) { return record >> kPagesShift; }
uint8_t tick_of(Record record) { return static_cast<uint8_t>(record >> kTickShift); }
// Modulo 256: an old tail may look young for a few ticks, and is found after them.
uint8_t age_of(Record record) { return static_cast<uint8_t>(span::ticks() - tick_of(record)); }

// A granule's number in a list.
using Link = uint32_t;
constexpr Link kEnd = 0;

Link link_of(uintptr_t at) { return static_cast<Link>((at - window.heap.base) >> kGranuleLog) + 1; }
uintptr_t limit_of(Link link) { return window.heap.base + (size_t{link} << kGranuleLog); }
Tail& tail(Link link) { return reinterpret_cast<Tail*>(window.tails.base)[link - 1]; }

// Held while records are claimed. An owner that finds its record claimed waits for this lock.
constinit os::Lock claiming;

// Granules that owners have listed since a purge last took all of them. Owners push one at a time,
// and purges take the whole list, so a head that comes back means no harm. Every granule in one of
// the lists is work: nothing here is as long as the window.
constinit Atomic<Link> noted{kEnd};

// Under the lock; others only compare with kEnd. Those still to be looked at, by whichever purge
// comes next, and those that were too young for the one that looked.
constinit Atomic<Link> waiting{kEnd};
constinit Atomic<Link> young{kEnd};
constinit Link last_young = kEnd;  // if there are any

constinit unsigned wanting_all = 0;  // purges of all tails that are under way. Under the lock

constinit Atomic<size_t> returned{0};  // relaxed: a statistic

// Both are small: a thread that waits for one tail waits for all of the batch, and for the looks.
constexpr unsigned kAtOnce = 16;
constexpr size_t kLooksAtOnce = 512;

// Relaxed: the lists below are the lock's.
Link get(const Atomic<Link>& list) { return list.load(memory_order_relaxed); }
void set(Atomic<Link>& list, Link link) { list.store(link, memory_order_relaxed); }

Link take_one() {
  const Link link = get(waiting);
  set(waiting, get(tail(link).next));
  return link;
}

void keep_young(Link link) {
  if (get(young) == kEnd) last_young = link;
  set(tail(link).next, get(young));
  set(young, link);
}

// All that are young wait again.
void look_at_young() {
  if (get(young) == kEnd) return;
  set(tail(last_young).next, get(waiting));
  set(waiting, get(young));
  set(young, kEnd);
}

// Claims the tail of a granule that is in no list, if it is old enough. The record's pages; 0 if
// there is nothing to purge: the granule was forgotten, and is no longer listed, or is young.
unsigned claim(Link link, uint32_t ticks) {
  Atomic<Record>& record = tail(link).record;
  Record before = record.load(memory_order_relaxed);
  for (;;) {
    if (pages_in(before) == 0) {
      // Release pairs with the acquire in note: whoever lists the granule again writes `next` after
      // it was read here.
      if (record.compare_exchange_weak(before, 0, memory_order_release, memory_order_relaxed)) {
        return 0;
      }
    } else if (age_of(before) < ticks) {
      keep_young(link);
      return 0;
    } else if (record.compare_exchange_weak(before, kListed | kClaimed, memory_order_acquire,
                                            memory_order_relaxed)) {
      // Acquire pairs with the release in note: the owner's last use of the pages happened before.
      return pages_in(before);
    }
  }
}

// Looks at some of the granules that wait, claims up to kAtOnce old tails, and purges them. Under
// the lock. Returns the bytes.
size_t go_on(uint32_t ticks) {
  Link of[kAtOnce];
  Discard tails[kAtOnce];
  unsigned count = 0;
  for (size_t looks = 0; get(waiting) != kEnd && looks < kLooksAtOnce && count < kAtOnce; ++looks) {
    const Link link = take_one();
    const size_t bytes = claim(link, ticks) * os::page_size();
    if (bytes == 0) continue;
    tails[count] = {limit_of(link) - bytes, bytes};
    of[count++] = link;
  }
  const uint64_t done = discard_all(count, [&](unsigned i) { return tails[i]; });
  size_t purged = 0;
  // Also if the discard was refused: locked pages are to stay. Release pairs with the acquires in
  // forget and note: the pages are gone before anybody writes there.
  for (unsigned i = 0; i < count; ++i) {
    tail(of[i]).record.store(0, memory_order_release);
    if ((done >> i & 1) != 0) purged += tails[i].bytes;
  }
  return purged;
}

}  // namespace

Since now() { return static_cast<uint8_t>(span::ticks()); }

void note(uintptr_t end, Since since) {
  const size_t bytes = round_up(end, kGranule) - end;
  const size_t pages = bytes / os::page_size();
  if (pages == 0) return;
  const Link link = link_of(end);
  Atomic<Record>& record = tail(link).record;
  // Relaxed: nobody else sets what counts here, and the exchange below sees what was cleared.
  LOFT_CHECK(record.load(memory_order_relaxed) <= kListed && since < kNoTail);
  const auto now =
      static_cast<Record>(pages << kPagesShift | size_t{since} << kTickShift | kListed);
  // Release pairs with the acquire in claim: nobody uses these pages any more. Acquire pairs with
  // the releases in claim and go_on: the purge that unlisted the granule has read `next`.
  if ((record.exchange(now, memory_order_acq_rel) & kListed) == 0) {
    // In the child of a fork, a thread that is gone may have stopped here. The granule then stays
    // out of every list, and its tail resident.
    Link first = noted.load(memory_order_relaxed);
    do {
      tail(link).next.store(first, memory_order_relaxed);
      // Release pairs with the acquire in purge, which sees `next`.
    } while (!noted.compare_exchange_weak(first, link, memory_order_release, memory_order_relaxed));
  }
  // The fence pairs with the one in purge. A caller that reads the hard limit after this call sees
  // it, or the purge that its setter starts sees this tail. Only seq_cst fences order a store
  // before a later load.
  thread_fence(memory_order_seq_cst);
}

Since forget(uintptr_t limit) {
  Atomic<Record>& record = tail(link_of(limit) - 1).record;
  // Acquire pairs with the release in go_on: the discard happened before the pages are used again.
  Record before = record.load(memory_order_acquire);
  while ((before & kClaimed) != 0 || pages_in(before) != 0) {
    if ((before & kClaimed) != 0) {
      // The claim ends before the lock is released. A thread of high priority sleeps here as long
      // as other threads keep the holder from running.
      {
        const os::Guard guard(claiming);
      }
      before = record.load(memory_order_acquire);
    } else if (record.compare_exchange_weak(before, kListed, memory_order_acquire,
                                            memory_order_acquire)) {
      return tick_of(before);
    }
  }
  return kNoTail;
}

size_t purge(uint32_t ticks) {
  size_t bytes = 0;
  const os::Guard guard(claiming);
  thread_fence(memory_order_seq_cst);  // pairs with the one in note
  // What the purges before this one found too young, and what they have left.
  look_at_young();
  if (ticks == 0) ++wanting_all;
  for (bool took_noted = false;;) {
    if (get(waiting) == kEnd) {
      if (took_noted) break;
      took_noted = true;
      // Acquire pairs with the release in note: the links are written.
      set(waiting, noted.exchange(kEnd, memory_order_acquire));
    }
    // Where somebody wants all of them, another purge must not put any back for being young.
    bytes += go_on(wanting_all != 0 ? 0 : ticks);
    claiming.let_others();
  }
  if (ticks == 0) --wanting_all;
  returned.fetch_add(bytes, memory_order_relaxed);
  return bytes;
}

bool none() { return get(noted) == kEnd && get(waiting) == kEnd && get(young) == kEnd; }
size_t purged_bytes() { return returned.load(memory_order_relaxed); }

void prepare_fork() { claiming.lock(); }

void finish_fork(bool child) {
  // A purge that the child does not have had put down its list. The next one goes on with it.
  if (child) wanting_all = 0;
  claiming.after_fork(child);
}

}  // namespace loft::tails
