// The pagemap: what each granule of the window holds (ISMM'19 2.4). One load answers all that free
// asks: the owner of the granule, and the bin of its objects. An all-zero entry is not loft's.
//
// An entry changes while no object lives on its granule. A thread that passes a pointer to another
// thread orders that write before the use. The owner is the exception: a slab with objects may
// become another heap's (heap/take_over.cc says why either owner will do). Entries are therefore
// read and written as a whole. A relaxed load suffices for free, because everything that free
// reaches through an entry existed before the objects did. A lookup of the owner's inbox needs
// acquire: the inbox may be younger than the objects.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/bound.h"
#include "base/macros.h"
#include "base/size_class.h"
#include "os/os.h"
#include "space/window.h"

namespace loft {

using HeapId = uint16_t;

inline constexpr HeapId kNoHeap = 0;          // the owner of memory that no heap owns
inline constexpr HeapId kNeverOwner = 65535;  // id of a thread without a heap; no entry has it

// kGuest: a guest's objects (cache/guest.h): a part of a heap of the program's own.
// kMedium: a medium run (slab/medium_runs.h). As it has an owner, free's fast path takes this for
// the offset of a bin; there is one, and it is always full.
inline constexpr size_t kBinBytes = 16;
enum Kind : uint16_t {
  kNothing = 0,
  kLarge = 1,
  kFreeSpan = 2,
  kGuest = 3,
  kMedium = 64,
  kFirstBinOffset = kMedium + kBinBytes,
};

constexpr uint16_t bin_offset(SizeClass c) {
  return static_cast<uint16_t>(kFirstBinOffset + c * kBinBytes);
}
constexpr SizeClass class_of_bin(uint16_t bin) {
  return static_cast<SizeClass>((bin - kFirstBinOffset) / kBinBytes);
}

//   bin 16 | index 32 | owner 16
//
// bin     offset of the size class's bin in the thread's block, or a Kind below kFirstBinOffset
// index   metadata of the slab, run, span or large object, in units of kMetadataUnit. Of kNothing:
//         where a slab of hardened=full will lie, 1 + its class (slab/apart.cc)
// owner   id of the heap that owns the slab or run; kNoHeap if none does, which equals no thread's
//
// In this order, free needs one load, one comparison with the low half-word, and one shift.
class Entry {
 public:
  static constexpr unsigned kIndexShift = 16;
  static constexpr uint64_t kBinAndOwner = ~(uint64_t{~uint32_t{0}} << kIndexShift);  // in a word

  Entry() = default;
  constexpr Entry(HeapId owner, uint16_t bin, uint32_t index)
      : word_(owner | uint64_t{index} << kIndexShift | uint64_t{bin} << 48) {}

  HeapId owner() const { return static_cast<HeapId>(word_); }
  uint32_t index() const { return static_cast<uint32_t>(word_ >> kIndexShift); }
  uint16_t bin() const { return static_cast<uint16_t>(word_ >> 48); }
  uint64_t word() const { return word_; }  // for os/restartable.h, which decodes it
  bool is_slab() const { return bin() >= kFirstBinOffset; }

  // Relaxed. A release of a span also reads the entries on both sides of it this way, while the
  // owner of a neighbour may be writing its own there. Either value will do: neither is a free
  // span's, because those are written only under the lock that the reader holds.
  Entry shared_load() const {
    Entry entry;
    entry.word_ = load_word(word_, memory_order_relaxed);
    return entry;
  }
  // Acquire pairs with the release in shared_store. A thread that learns of an owner from the entry
  // of a slab that was taken over thereby sees the heap constructed; relaxed would not order that.
  Entry acquire_load() const {
    Entry entry;
    entry.word_ = load_word(word_, memory_order_acquire);
    return entry;
  }
  void shared_store(Entry entry) { store_word(word_, entry.word_, memory_order_release); }

 private:
  uint64_t word_;
};
static_assert(sizeof(Entry) == kPagemapEntry);

// The low bits that are zero in every pointer from loft. position() rotates them to the top, so
// that one comparison refuses both misaligned and foreign pointers.
inline constexpr unsigned kAlignmentLog = 4;
inline constexpr size_t kAlignment = size_t{1} << kAlignmentLog;

// Constant after start, except the limits, which follow the heap. The table is mapped up to the
// limit; entries that nobody has filled read as zero. What the fast paths of a thread read is in
// one cache line of its own, because every call reads it; the second line is read under owner=cpu.
struct alignas(64) Pagemap {
  // The initial value is odd: every pointer then counts as misaligned, whichever other fields a
  // thread sees of a start that runs beside it.
  uintptr_t base = 1;
  // Where the entry of address 0 would be. free finds an entry by a shift of the pointer, without
  // waiting for the offset from `base`; only the comparison needs that offset.
  uintptr_t entry_of_zero = 0;

  // The bounds of free's fast path for a thread and, below, for a processor. By the option `owner`,
  // one is `limit` and the other 0; with hardened=full, both are 0. table_max is the largest size
  // on malloc's fast path for a thread. malloc/allocate.h.
  Bound thread_limit;
  size_t table_max = kTableMax;

  // The same for operator delete and operator new. All of them are 0 until it is known, and where
  // it is known, that the program has the functions itself from which these derive
  // (api/new.cc): each call then takes its slow path. table bounds are exclusive.
  Bound operator_thread_limit;
  Bound operator_table;

  // The page size; 0 where an allocation of a medium object is to ask the policies: while a profile
  // is taken, in the hardened modes, and before the start.
  Bound medium_page;
  Bound limit;  // of the window, in units of kAlignment

  Entry* entries = nullptr;
  Bound core_limit;
  Bound operator_core_limit;
  Bound operator_core_table;
  bool serves_operators = false;

  // `first` is the entry of the granule at `window_base`.
  void set_table(uintptr_t window_base, Entry* first) {
    base = window_base;
    entries = first;
    entry_of_zero =
        reinterpret_cast<uintptr_t>(first) - (window_base >> kGranuleLog) * sizeof(Entry);
  }

  // The heap now reaches up to `end`, and the table is mapped for it. Under the lock of the spans.
  void raise_limit(uintptr_t end) {
    limit.set((end - base) >> kAlignmentLog);
    if (thread_limit.get() != 0) thread_limit.set(limit.get());
    if (core_limit.get() != 0) core_limit.set(limit.get());
    follow();
  }
  // At the start.
  void serve_threads() {
    thread_limit.set(limit.get());
    medium_page.set(os::page_size());
    follow();
  }

  // From now on, processors are served and threads are not. Under the lock of the spans.
  void serve_processors() {
    core_limit.set(limit.get());
    thread_limit.set(0);
    table_max = 0;
    follow();
  }

  // From now on, each free and each allocation of a medium object takes the slow path. Under the
  // lock of the spans.
  void serve_nobody() {
    medium_page.set(0);
    core_limit.set(0);
    thread_limit.set(0);
    follow();
  }

  // From now on, operator new and delete have the fast paths of malloc and free. Under the lock of
  // the spans.
  void serve_operators() {
    serves_operators = true;
    follow();
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
  // The table as it lies now, for a loop.
  struct Entries {
    uintptr_t of_zero;
    Entry of(uintptr_t address) const {
      const uintptr_t entry = of_zero + (address >> kGranuleLog) * sizeof(Entry);
      return reinterpret_cast<const Entry*>(entry)->shared_load();
    }
  };
  Entries all() const { return {entry_of_zero}; }

  // p must be contained.
  Entry of(const void* p) const { return at(reinterpret_cast<uintptr_t>(p)).shared_load(); }
  // As of(), with acquire: all that the entry's writer had seen is visible.
  Entry acquire(const void* p) const { return at(reinterpret_cast<uintptr_t>(p)).acquire_load(); }
  void fill(uintptr_t from, size_t granules, Entry entry) const {
    Entry* first = &at(from);
    for (size_t i = 0; i < granules; ++i) first[i].shared_store(entry);
  }
  // Gives back the pages of the table that hold entries of [from, end) alone, which are all zero.
  void forget(uintptr_t from, uintptr_t end) const;

 private:
  void follow() {
    if (!serves_operators) return;
    operator_thread_limit.set(thread_limit.get());
    operator_core_limit.set(core_limit.get());
    operator_table.set(table_max == 0 ? 0 : kTableMax + 1);
    operator_core_table.set(table_max == 0 ? kTableMax + 1 : 0);
  }

  LOFT_ALWAYS_INLINE Entry& at(uintptr_t address) const {
    return *reinterpret_cast<Entry*>(entry_of_zero + (address >> kGranuleLog) * sizeof(Entry));
  }
};

static_assert(sizeof(Pagemap) == 128 && offsetof(Pagemap, entries) == 64);

extern LOFT_HIDDEN Pagemap pagemap;

}  // namespace loft
