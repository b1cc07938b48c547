#include "hardened/guarded.h"

#include <new>

#include "base/bits.h"
#include "base/peek.h"
#include "heap/large.h"
#include "os/fault.h"
#include "os/lock.h"
#include "os/os.h"
#include "space/span.h"

namespace loft::large {

namespace {

struct Addresses {
  uintptr_t base;  // 0: none
  size_t granules;
};

// The addresses of the objects freed last, in a row.
constexpr unsigned kMost = 256;
constexpr size_t kMostGranules = (size_t{4} << 30) / kGranule;
constinit os::Lock lock;  // taken before that of the spans
constinit Addresses row[kMost] = {};
constinit unsigned next = 0;
constinit size_t granules_in_row = 0;

// So many objects of this file have guards, which are two mappings for each. The system allows a
// process some 65 000, and answers any call with an error when there are more: also the calls that
// would make them fewer. Relaxed: a few more do no harm.
constexpr size_t kMostGuarded = 12 * 1024;
constinit Atomic<size_t> objects{0};

void* at(uintptr_t address) { return reinterpret_cast<void*>(address); }

LOFT_COLD void report_unguarded() {
  static constinit Atomic<uint32_t> reported{0};
  if (reported.exchange(1, memory_order_relaxed) != 0) return;
  os::report(Text() << "hardened: there are too many mappings (vm.max_map_count): some large "
                       "objects lie between pages that can be written");
}

// Makes the addresses ordinary free memory. What the system refuses to open is lost.
void open(Addresses addresses) {
  if (addresses.base == 0) return;
  if (!os::renew(at(addresses.base), addresses.granules << kGranuleLog)) return;
  span::release_left(addresses.base, addresses.granules, false, 0);
}

// Under the lock. Returns the oldest, whose place it takes.
Addresses put(Addresses addresses) {
  const Addresses oldest = row[next];
  row[next] = addresses;
  next = (next + 1) % kMost;
  granules_in_row += addresses.granules - oldest.granules;
  return oldest;
}

// What lies around an object: its own granules, those in front, and one behind.
Addresses all_of(const Large& object) {
  const uintptr_t base = object.base - (object.front << kGranuleLog);
  return {base, object.front + object.granules + 1};
}

}  // namespace

void* allocate_guarded(size_t asked, size_t alignment, At side) {
  const size_t page = os::page_size();
  const size_t bytes = round_up(most<size_t>(asked, 1), page);
  const size_t front = most(alignment, kGranule) >> kGranuleLog;
  const size_t granules = granules_for(bytes);
  void* const block = metadata::allocate(sizeof(Large));
  if (block == nullptr) return nullptr;
  const span::Range range = span::acquire(front + granules + 1, most(alignment, kGranule), bytes);
  if (range.base == 0) {
    metadata::release(block, sizeof(Large));
    return nullptr;
  }
  const uintptr_t base = range.base + (front << kGranuleLog);
  const uintptr_t end = range.base + ((front + granules + 1) << kGranuleLog);
  if (!range.zero && !os::discard(at(base), bytes)) __builtin_memset(at(base), 0, bytes);
  const bool guarded = objects.fetch_add(1, memory_order_relaxed) < kMostGuarded &&
                       os::close(at(range.base), base - range.base, range.zero) &&
                       os::close(at(base + bytes), end - base - bytes, range.zero);
  if (LOFT_UNLIKELY(!guarded)) report_unguarded();
  auto* const object = new (block) Large{};
  object->base = base;
  object->bytes = bytes;
  object->granules = granules;
  object->front = front;
  object->asked = asked;
  object->guarded = true;
  if (side == At::kEnd) {
    object->shift = static_cast<uint16_t>((bytes - most<size_t>(asked, 1)) &
                                          ~(most(alignment, kAlignment) - 1));
  }
  enter(*object);
  account(0, bytes);
  return at(object->start());
}

Around around(const Large& object) {
  const Addresses all = all_of(object);
  return {all.base, all.base + (all.granules << kGranuleLog)};
}

bool shrink_guarded(Large* object, size_t bytes) {
  const size_t before = object->bytes;
  if (!os::close(at(object->base + bytes), before - bytes)) return false;
  object->bytes = bytes;
  object->asked = least(object->asked, bytes);
  account(before, bytes);
  span::recount(before, bytes);
  return true;
}

void release_guarded(Large* object) {
  const Large old = *object;
  const Addresses addresses = all_of(old);
  account(old.bytes, 0);
  objects.fetch_sub(1, memory_order_relaxed);
  leave(old);
  metadata::release(object, sizeof(Large));
  // Discards first, while the range certainly belongs to loft. If it is a hole then, all addresses
  // are lost: nobody maps there again.
  os::discard(at(old.base), old.bytes, os::Proof::kNone);
  span::recount(old.bytes, 0);
  if (LOFT_UNLIKELY(!os::renew(at(old.base), old.granules << kGranuleLog, true))) return;
  Addresses out[2] = {};
  {
    const os::Guard guard(lock);
    out[0] = put(addresses);
    if (granules_in_row > kMostGranules) out[1] = put({});
  }
  open(out[0]);
  open(out[1]);
}

bool is_kept_closed(uintptr_t address) {
  for (const Addresses& closed : row) {
    if (address - peek(closed.base) < peek(closed.granules) << kGranuleLog) return true;
  }
  return false;
}

void empty_guarded() {
  for (unsigned i = 0; i < kMost; ++i) {
    Addresses oldest{};
    {
      const os::Guard guard(lock);
      oldest = put({});
    }
    open(oldest);
  }
}

void prepare_fork_of_guarded() { lock.lock(); }
void finish_fork_of_guarded(bool child) { lock.after_fork(child); }

}  // namespace loft::large
