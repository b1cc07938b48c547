#include "large/tails.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "base/macros.h"
#include "os/fault.h"
#include "os/lock.h"
#include "os/os.h"
#include "space/span.h"
#include "space/window.h"

namespace loft::tails {

namespace {

// A record: how many pages there are from the end of the object to that of the granule, and the
// tick at which that was noted; 0 where there is no tail; kClaimed while it is being given back.
using Record = uint16_t;
constexpr unsigned kTickBits = 8;
constexpr Record kClaimed = 0xffff;
static_assert(sizeof(Record) == kTailRecord);
static_assert(kGranule / 4096 < kClaimed >> kTickBits);

unsigned pages_in_tail(Record record) { return record >> kTickBits; }
uint8_t tick_of(Record record) { return static_cast<uint8_t>(record); }
// Modulo 256: an old one looks young for a few ticks, and is found after these.
uint8_t age_of(Record record) { return static_cast<uint8_t>(span::ticks() - tick_of(record)); }

size_t granule_of(uintptr_t at) { return (at - window.heap.base) >> kGranuleLog; }
Atomic<Record>& record_at(size_t granule) {
  return reinterpret_cast<Atomic<Record>*>(window.tails.base)[granule];
}

// Held while records are claimed. An owner that finds its record claimed waits for this lock.
constinit os::Lock claiming;

// Some record was written since the last look at all of them.
constinit Atomic<bool> noted{false};

constinit Atomic<size_t> returned{0};  // relaxed: a statistic

// Few of both: whoever waits for one of them waits for all, and for the looks at others meanwhile.
constexpr size_t kAtOnce = 16;
constexpr size_t kLooksAtOnce = 4096;

struct Look {
  size_t granule;  // the next one
  size_t bytes;    // given back so far
  bool left;       // something stays noted
};

// Looks at some of the granules [look.granule, end), claims up to kAtOnce old tails, and gives them
// back. Under the lock.
Look go_on(Look look, size_t end, uint32_t ticks) {
  size_t of[kAtOnce];
  size_t count = 0;
  look.granule = granule_of(window.behind_gap(window.heap.base + (look.granule << kGranuleLog)));
  end = least(end, look.granule + kLooksAtOnce);
  for (; look.granule < end && count < kAtOnce; ++look.granule) {
    Record record = record_at(look.granule).load(memory_order_relaxed);
    if (record == 0) continue;
    // Acquire pairs with the release in note: what was there before has been given up.
    if (age_of(record) < ticks ||
        !record_at(look.granule)
             .compare_exchange_strong(record, kClaimed, memory_order_acquire,
                                      memory_order_relaxed)) {
      look.left = true;
      continue;
    }
    const size_t bytes = pages_in_tail(record) * os::page_size();
    const uintptr_t limit = window.heap.base + ((look.granule + 1) << kGranuleLog);
    if (os::discard(reinterpret_cast<void*>(limit - bytes), bytes)) look.bytes += bytes;
    of[count++] = look.granule;
  }
  // Refused, too: locked pages are to stay. Release pairs with the acquires in forget: the pages
  // are gone before anybody writes there.
  for (size_t i = 0; i < count; ++i) record_at(of[i]).store(0, memory_order_release);
  return look;
}

}  // namespace

Since now() { return static_cast<uint8_t>(span::ticks()); }

void note(uintptr_t end, Since since) {
  const size_t bytes = round_up(end, kGranule) - end;
  const size_t pages = bytes / os::page_size();
  if (pages == 0) return;
  Atomic<Record>& record = record_at(granule_of(end));
  LOFT_CHECK(record.load(memory_order_relaxed) == 0 && since < kNoTail);
  // Release pairs with the acquire of who claims it: nobody uses these pages any more.
  record.store(static_cast<Record>(pages << kTickBits | since), memory_order_release);
  // The fence pairs with that in give_back, between its store and its look at the records: it sees
  // this one, or `noted` is false here, and set again.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!noted.load(memory_order_relaxed)) noted.store(true, memory_order_relaxed);
}

Since forget(uintptr_t limit) {
  Atomic<Record>& record = record_at(granule_of(limit) - 1);
  // Acquire pairs with the release in go_on.
  Record before = record.load(memory_order_acquire);
  while (before != 0) {
    if (before == kClaimed) {
      // The claim ends before the lock is let go. A thread of high priority sleeps as long as
      // others keep its holder from running.
      {
        const os::Guard guard(claiming);
      }
      before = record.load(memory_order_acquire);
    } else if (record.compare_exchange_weak(before, 0, memory_order_acquire,
                                            memory_order_acquire)) {
      return tick_of(before);
    }
  }
  return kNoTail;
}

size_t give_back(uint32_t ticks) {
  // Somebody may be looking at this moment, for older ones: who wants all looks for himself.
  if (ticks != 0 && none()) return 0;
  noted.store(false, memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // note says why
  const size_t end = span::used_bytes() >> kGranuleLog;
  Look look = {};
  {
    const os::Guard guard(claiming);
    while (look.granule < end) {
      look = go_on(look, end, ticks);
      claiming.let_others();
    }
  }
  if (look.left) noted.store(true, memory_order_relaxed);
  returned.fetch_add(look.bytes, memory_order_relaxed);
  return look.bytes;
}

bool none() { return !noted.load(memory_order_relaxed); }
size_t given_back_bytes() { return returned.load(memory_order_relaxed); }

void prepare_fork() { claiming.lock(); }

void finish_fork(bool child) {
  // In a child, whoever had cleared it is not here to go on.
  if (child) noted.store(true, memory_order_relaxed);
  claiming.after_fork(child);
}

}  // namespace loft::tails
