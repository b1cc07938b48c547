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

// A record: the number of pages from the end of the object to the end of the granule, and the tick
// at which it was noted. 0: no tail. kClaimed: the tail is being purged.
using Record = uint16_t;
constexpr unsigned kTickBits = 8;
constexpr Record kClaimed = 0xffff;
static_assert(sizeof(Record) == kTailRecord);
static_assert(kGranule / 4096 < kClaimed >> kTickBits);

unsigned pages_in_tail(Record record) { return record >> kTickBits; }
uint8_t tick_of(Record record) { return static_cast<uint8_t>(record); }
// Modulo 256: an old tail may look young for a few ticks, and is found after them.
uint8_t age_of(Record record) { return static_cast<uint8_t>(span::ticks() - tick_of(record)); }

size_t granule_of(uintptr_t at) { return (at - window.heap.base) >> kGranuleLog; }
Atomic<Record>& record_at(size_t granule) {
  return reinterpret_cast<Atomic<Record>*>(window.tails.base)[granule];
}

// Held while records are claimed. An owner that finds its record claimed waits for this lock.
constinit os::Lock claiming;

// Some record was written since the last scan of all records.
constinit Atomic<bool> noted{false};

constinit Atomic<size_t> returned{0};  // relaxed: a statistic

// Both are small: a thread that waits for one tail waits for all of the batch, and for the scan.
constexpr size_t kAtOnce = 16;
constexpr size_t kLooksAtOnce = 4096;

struct Look {
  size_t granule;  // the next one
  size_t bytes;    // given back so far
  bool left;       // some record stays noted
};

// Scans some of the granules [look.granule, end), claims up to kAtOnce old tails, and purges them.
// Under the lock.
Look go_on(Look look, size_t end, uint32_t ticks) {
  size_t of[kAtOnce];
  size_t count = 0;
  look.granule = granule_of(window.behind_gap(window.heap.base + (look.granule << kGranuleLog)));
  end = least(end, look.granule + kLooksAtOnce);
  for (; look.granule < end && count < kAtOnce; ++look.granule) {
    Record record = record_at(look.granule).load(memory_order_relaxed);
    if (record == 0) continue;
    // Acquire pairs with the release in note: the owner's last use of the pages happened before.
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
  // Also if the discard was refused: locked pages are to stay. Release pairs with the acquires in
  // forget: the pages are gone before anybody writes there.
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
  // Release pairs with the acquire of the claim in go_on: nobody uses these pages any more.
  record.store(static_cast<Record>(pages << kTickBits | since), memory_order_release);
  // The fence pairs with the one in purge, which stands between its store to `noted` and its
  // scan of the records. Either that scan sees this record, or the load below sees false and
  // `noted` is set again. Only seq_cst fences order a store before a later load.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!noted.load(memory_order_relaxed)) noted.store(true, memory_order_relaxed);
}

Since forget(uintptr_t limit) {
  Atomic<Record>& record = record_at(granule_of(limit) - 1);
  // Acquire pairs with the release in go_on: the discard happened before the pages are used again.
  Record before = record.load(memory_order_acquire);
  while (before != 0) {
    if (before == kClaimed) {
      // The claim ends before the lock is released. A thread of high priority sleeps here as long
      // as other threads keep the holder from running.
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

size_t purge(uint32_t ticks) {
  // `noted` may be false because another call is scanning at this moment, for older tails only. A
  // call for all tails therefore scans by itself.
  if (ticks != 0 && none()) return 0;
  noted.store(false, memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with the one in note
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
size_t purged_bytes() { return returned.load(memory_order_relaxed); }

void prepare_fork() { claiming.lock(); }

void finish_fork(bool child) {
  // The thread that had cleared it does not exist in the child, and cannot finish its scan.
  if (child) noted.store(true, memory_order_relaxed);
  claiming.after_fork(child);
}

}  // namespace loft::tails
