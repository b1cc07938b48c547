#include "hardened/scan.h"

#include "base/bits.h"
#include "base/peek.h"
#include "hardened/before.h"
#include "hardened/cell.h"
#include "heap/registry.h"
#include "os/lock.h"
#include "slab/slab.h"
#include "space/pagemap.h"
#include "space/span.h"

namespace loft::hardened {

namespace {

// An address without a slab costs a look at the pagemap: a share of the bytes that it stands for.
constexpr size_t kLookedPast = kGranule / 64;

// A cell that was found broken.
struct Suspect {
  uintptr_t cell;
  uint8_t size_class;
  uint8_t looks;
};

constinit os::Lock scan_lock;  // only ever tried; taken before a heap's, which is tried, too
constinit uintptr_t scan_at = 0;
constinit size_t scan_passed = 0;  // bytes, since the round began
constexpr unsigned kMostSuspects = 64;
constinit Suspect suspects[kMostSuspects] = {};
constinit unsigned suspect_count = 0;

const uint64_t& scan_word(uintptr_t at) { return *reinterpret_cast<const uint64_t*>(at); }

uint64_t scan_bytes(uintptr_t at) {
  const unsigned shift = at % sizeof(uint64_t) * 8;
  const uintptr_t from = at - at % sizeof(uint64_t);
  if (shift == 0) return peek(scan_word(from));
  return peek(scan_word(from)) >> shift | peek(scan_word(from + sizeof(uint64_t))) << (64 - shift);
}

// As is_fence_whole.
bool seems_whole(uintptr_t end, size_t slack, uint64_t bytes) {
  const uint64_t last = scan_bytes(end - sizeof(uint64_t)) ^ bytes;
  if (slack < sizeof(uint64_t)) return slack == 0 || last >> (64 - 8 * slack) == 0;
  return (last | (scan_bytes(end - slack) ^ bytes)) == 0;
}

bool seems_zero(uintptr_t from, size_t bytes) {
  uint64_t any = 0;
  for (uintptr_t at = from; at != from + bytes; at += sizeof(uint64_t)) any |= peek(scan_word(at));
  return any == 0;
}

bool is_broken(uintptr_t cell, size_t bytes) {
  const uintptr_t end = cell + bytes - kTagBytes;
  const uint64_t tag = peek(scan_word(end));
  if (tag == 0 || tag == free_tag_of(cell)) return false;
  Marks marks;
  if (!read_tag(cell, tag, &marks) || marks.slack > bytes - kTagBytes) return true;
  compiler_fence();
  if (LOFT_LIKELY(seems_whole(end, marks.slack, fence_of(cell)))) return false;
  compiler_fence();
  return peek(scan_word(end)) == tag;
}

void suspect(uintptr_t cell, SizeClass c) {
  if (suspect_count == kMostSuspects) return;  // one of the others will be told of
  if (is_from_before(reinterpret_cast<const void*>(cell))) return;
  for (unsigned i = 0; i < suspect_count; ++i) {
    if (suspects[i].cell == cell) return;
  }
  suspects[suspect_count++] = {cell, static_cast<uint8_t>(c), 1};
}

// The lock of the heap whose slab has the cell, if the pagemap says so then, too. nullptr: not
// now, and the next look or round comes here again.
os::Lock* try_lock_of(const void* p, Entry entry) {
  Heap* const heap = registry::find(entry.owner());
  if (heap == nullptr) return nullptr;
  os::Lock& lock = heap->lock();
  if (!lock.try_lock()) return nullptr;
  if (pagemap.of(p).word() == entry.word()) return &lock;
  lock.unlock();
  return nullptr;
}

// False if the cell is not to be looked at again.
bool look_again(Suspect& it) {
  auto* const p = reinterpret_cast<const void*>(it.cell);
  const Entry entry = pagemap.acquire(p);
  if (!entry.is_slab() || class_of_bin(entry.bin()) != it.size_class) return false;
  if (!is_broken(it.cell, class_size(it.size_class)) || is_from_before(p)) return false;
  if (it.looks + 1u < kScanLooks) {
    ++it.looks;
  } else if (os::Lock* const lock = try_lock_of(p, entry); lock != nullptr) {
    if (is_broken(it.cell, class_size(it.size_class))) report_damage("scan", p);
    lock->unlock();
    return false;
  }
  return true;
}

void look_again() {
  unsigned kept = 0;
  for (unsigned i = 0; i < suspect_count; ++i) {
    Suspect it = suspects[i];
    if (look_again(it)) suspects[kept++] = it;
  }
  suspect_count = kept;
}

// A cell that seemed to be free in its slab, and written to. Nobody has such a cell, and no
// message is in it.
LOFT_COLD void look_at_free(uintptr_t cell, Entry entry) {
  auto* const p = reinterpret_cast<const void*>(cell);
  os::Lock* const lock = try_lock_of(p, entry);
  if (lock == nullptr) return;
  const Slab* const slab = slab::at(entry);
  const uint32_t object = slab->object_starting_at(p);
  if ((slab->bits[object / 64] >> object % 64 & 1) != 0) check_unwritten(p, slab->shape().size);
  lock->unlock();
}

void look_at_slab(uintptr_t base, Entry entry) {
  const SizeClass c = class_of_bin(entry.bin());
  const Geometry& shape = geometry(c);
  if (shape.size < kLeastPlace) return;  // of objects from before
  const Slab* const slab = slab::at(entry);
  const PageSet gone = slab->gone.peeked();
  for (uint32_t object = 0; object < shape.objects; ++object) {
    const uintptr_t cell = base + size_t{object} * shape.size;
    if ((peek(slab->bits[object / 64]) >> object % 64 & 1) == 0) {
      if (LOFT_UNLIKELY(is_broken(cell, shape.size))) suspect(cell, c);
      continue;
    }
    // A page without memory is not to get any by being read.
    if (gone.meets(pages_of(shape, object, object))) continue;
    const size_t bytes = shape.size - kTagBytes;
    const uint64_t tag = peek(scan_word(cell + bytes));
    if (LOFT_UNLIKELY(!seems_zero(cell, bytes) || (tag != 0 && tag != free_tag_of(cell)))) {
      look_at_free(cell, entry);
    }
  }
}

// Looks at what lies at scan_at. Returns how many granules that has.
size_t scan_step() {
  const uintptr_t at = window.heap.base + scan_at;
  const Entry entry = pagemap.acquire(reinterpret_cast<const void*>(at));
  // If the slab has just gone, its metadata may be something else by now. Should that name the same
  // base, the cells are where they were, and its bits are a hint.
  if (!entry.is_slab() || peek(slab::at(entry)->base) != at) return 0;
  look_at_slab(at, entry);
  return geometry(class_of_bin(entry.bin())).granules;
}

}  // namespace

bool scan(size_t bytes) {
  if (LOFT_LIKELY(!free_reads_as_zero)) return true;
  if (!scan_lock.try_lock()) return false;
  look_again();
  const size_t end = span::used_bytes();
  size_t cost = 0;
  for (size_t seen = 0; seen < end && cost < bytes;) {
    if (scan_at >= end) scan_at = 0;
    const size_t granules = scan_step();
    cost += granules == 0 ? kLookedPast : granules << kGranuleLog;
    const size_t walked = most<size_t>(granules, 1) << kGranuleLog;
    scan_at += walked;
    seen += walked;
    scan_passed += walked;
  }
  const bool done = scan_passed >= end && suspect_count == 0;
  scan_lock.unlock();
  return done;
}

void restart_scan() {
  if (!scan_lock.try_lock()) return;
  scan_passed = 0;
  scan_lock.unlock();
}

void forget_scan() {
  scan_lock.reset();
  suspect_count = 0;
  scan_passed = 0;
}

}  // namespace loft::hardened
