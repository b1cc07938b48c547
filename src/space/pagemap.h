// The pagemap: what every granule of the window holds (ISMM'19 2.4). One load answers all that free
// asks: who owns the granule, and which bin its objects go to.
//
// All zero means not ours. An entry changes while no object lives on its granule, and whoever
// passed a pointer to another thread ordered that write before the use. But for its owner: a slab
// that has objects may become another heap's (heap/take_over.cc says why either name will do). So
// entries are read and written as a whole. Relaxed: what free finds by way of an entry was there
// before its objects were; who looks for the owner's inbox, which may be younger, acquires.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bound.h"
#include "base/macros.h"
#include "base/size_class.h"
#include "space/window.h"

namespace loft {

using HeapId = uint16_t;

inline constexpr HeapId kNoHeap = 0;          // owner of what no heap owns
inline constexpr HeapId kNeverOwner = 65535;  // id of a thread without a heap; no entry has it

// kExtent: a part of a heap of the program's own (arena/user_heap.h).
enum Kind : uint16_t { kNothing = 0, kLarge = 1, kFreeSpan = 2, kExtent = 3, kFirstBinOffset = 64 };

inline constexpr size_t kBinBytes = 16;
constexpr uint16_t bin_offset(SizeClass c) {
  return static_cast<uint16_t>(kFirstBinOffset + c * kBinBytes);
}
constexpr SizeClass class_of_bin(uint16_t bin) {
  return static_cast<SizeClass>((bin - kFirstBinOffset) / kBinBytes);
}

//   bin 16 | index 32 | owner 16
//
// bin     offset of the size class's bin in the thread's block, or a Kind below kFirstBinOffset
// index   metadata of the slab, span or large object, in units of kMetadataUnit
// owner   id of the heap that owns the slab; kNoHeap for what no heap owns, which no thread's id
// equals
//
// In this order free needs one load, one comparison with the low half-word, and one shift.
class Entry {
 public:
  Entry() = default;
  constexpr Entry(HeapId owner, uint16_t bin, uint32_t index)
      : word_(owner | uint64_t{index} << 16 | uint64_t{bin} << 48) {}

  HeapId owner() const { return static_cast<HeapId>(word_); }
  uint32_t index() const { return static_cast<uint32_t>(word_ >> 16); }
  uint16_t bin() const { return static_cast<uint16_t>(word_ >> 48); }
  uint64_t word() const { return word_; }  // for os/restartable.h, which takes it apart
  bool is_slab() const { return bin() >= kFirstBinOffset; }

  // Also for whoever gives a span back and reads the entries on both sides of it, while the owner
  // of a neighbour may be writing its own there. Relaxed: neither the old entry nor the new one is
  // a free span's, and those are written under the reader's lock.
  Entry shared_load() const {
    Entry entry;
    entry.word_ = __atomic_load_n(&word_, __ATOMIC_RELAXED);
    return entry;
  }
  // Acquire and release: whoever learns of an owner from the entry of a slab that changed hands
  // finds the heap made.
  Entry acquire_load() const {
    Entry entry;
    entry.word_ = __atomic_load_n(&word_, __ATOMIC_ACQUIRE);
    return entry;
  }
  void shared_store(Entry entry) { __atomic_store_n(&word_, entry.word_, __ATOMIC_RELEASE); }

 private:
  uint64_t word_;
};
static_assert(sizeof(Entry) == kPagemapEntry);

// The lowest bits that a pointer from loft never has; they are rotated to the top, so that one
// comparison refuses a misaligned pointer together with a foreign one.
inline constexpr unsigned kAlignmentLog = 4;
inline constexpr size_t kAlignment = size_t{1} << kAlignmentLog;

// Constant after start, except the limits, which follow the heap: up to there the table is mapped,
// and what nobody filled in of it reads as zero. A cache line of its own: every free reads it.
struct alignas(64) Pagemap {
  // Until it is set: an odd base leaves every pointer misaligned, whatever else a thread sees of a
  // start that goes on beside it.
  uintptr_t base = 1;
  Bound limit;  // of the window, in units of kAlignment
  Entry* entries = nullptr;
  // Where the entry of address 0 would be: free finds an entry by a shift, without waiting for the
  // offset from `base`, which is for the comparison alone.
  uintptr_t entry_of_zero = 0;

  // What free accepts on its fast path for a thread, and on that for a processor: one is `limit`
  // and the other 0, by the option `owner`. And the largest size that malloc accepts on its fast
  // path for a thread, here because all calls read this line. front/allocate.h.
  Bound thread_limit;
  Bound core_limit;
  size_t table_max = kTableMax;

  // `first` is the entry of the granule at `window_base`.
  void set_table(uintptr_t window_base, Entry* first) {
    base = window_base;
    entries = first;
    entry_of_zero =
        reinterpret_cast<uintptr_t>(first) - (window_base >> kGranuleLog) * sizeof(Entry);
  }

  // The heap reaches up to `end`, and the table is mapped for it. Under the lock of the spans.
  void raise_limit(uintptr_t end) {
    limit.set((end - base) >> kAlignmentLog);
    (core_limit.get() != 0 ? core_limit : thread_limit).set(limit.get());
  }
  // From now on processors are served, and no threads. Under the lock of the spans.
  void serve_processors() {
    core_limit.set(limit.get());
    thread_limit.set(0);
  }

  // Position of p in units of kAlignment; at or above `limit` if p is null, foreign or misaligned.
  LOFT_ALWAYS_INLINE uint64_t position(const void* p) const {
    const uintptr_t offset = reinterpret_cast<uintptr_t>(p) - base;
    return offset >> kAlignmentLog | offset << (64 - kAlignmentLog);
  }
  LOFT_ALWAYS_INLINE Entry at_position(uint64_t position) const {
    return entries[position >> (kGranuleLog - kAlignmentLog)].shared_load();
  }

  bool contains(const void* p) const {
    return limit.contains((reinterpret_cast<uintptr_t>(p) - base) >> kAlignmentLog);
  }
  // p must be contained.
  Entry of(const void* p) const { return at(reinterpret_cast<uintptr_t>(p)).shared_load(); }
  // The entry as its writer left it, and all that he had seen.
  Entry acquire(const void* p) const { return at(reinterpret_cast<uintptr_t>(p)).acquire_load(); }
  void fill(uintptr_t from, size_t granules, Entry entry) const {
    Entry* first = &at(from);
    for (size_t i = 0; i < granules; ++i) first[i].shared_store(entry);
  }

 private:
  LOFT_ALWAYS_INLINE Entry& at(uintptr_t address) const {
    return *reinterpret_cast<Entry*>(entry_of_zero + (address >> kGranuleLog) * sizeof(Entry));
  }
};

static_assert(sizeof(Pagemap) == 64);

extern LOFT_HIDDEN Pagemap pagemap;

}  // namespace loft
