#include "hardened/before.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "os/fault.h"
#include "os/os.h"
#include "space/metadata.h"

namespace loft::hardened {

namespace {

// A linear search does: few objects are asked for here, each when its tag is found missing. There
// is no lock, which the child of a fork could find taken.
constexpr size_t kMostNoted = kMetadataMaxBlock / sizeof(void*);
constinit Atomic<const void*>* noted = nullptr;
constinit size_t count = 0;

Atomic<const void*>* slot_of(const void* p) {
  for (size_t i = 0; i < count; ++i) {
    // Acquire: who does not find an object any more finds its memory as forget_before's caller left
    // it.
    if (noted[i].load(memory_order_acquire) == p) return &noted[i];
  }
  return nullptr;
}

}  // namespace

bool note_before(const void* p) {
  if (noted == nullptr) {
    noted = static_cast<Atomic<const void*>*>(metadata::allocate(kMetadataMaxBlock));
  }
  if (noted == nullptr || count == kMostNoted) return false;
  noted[count++].store(p, memory_order_relaxed);
  return true;
}

bool is_from_before(const void* p) { return slot_of(p) != nullptr; }

bool forget_before(const void* p) {
  Atomic<const void*>* const slot = slot_of(p);
  return slot != nullptr &&
         slot->compare_exchange_strong(p, nullptr, memory_order_release, memory_order_relaxed);
}

namespace {

// An address each sixteen bytes, and a bit for each: whether the program has it.
constexpr unsigned kStepLog = 4;
constexpr size_t kMostNothings = size_t{1} << 22;
constexpr size_t kBytes = kMostNothings << kStepLog;
constexpr size_t kWords = kMostNothings / 64;

// Release where it is set, acquire where it is read: the bits are there.
constinit Atomic<uintptr_t> base{0};
constinit Atomic<uint64_t>* bits = nullptr;
// Relaxed: where the search begins, which may be anywhere. It goes on, so that an address comes
// again after all others.
constinit Atomic<size_t> next_nothing{0};

uintptr_t region() {
  uintptr_t at = base.load(memory_order_acquire);
  if (LOFT_LIKELY(at != 0)) return at;
  // Both in one mapping, so that the loser of two threads has one thing to give back.
  const size_t table = kWords * sizeof(uint64_t);
  void* const memory = os::reserve(table + kBytes);
  if (memory == nullptr) return 0;
  if (!os::commit(memory, table)) {
    os::unmap(memory, table + kBytes);
    return 0;
  }
  static constinit Atomic<uint32_t> made{0};
  if (made.exchange(1, memory_order_acq_rel) != 0) {
    os::unmap(memory, table + kBytes);
    return base.load(memory_order_acquire);  // 0 for a moment: an object of one byte will do
  }
  bits = static_cast<Atomic<uint64_t>*>(memory);
  at = reinterpret_cast<uintptr_t>(memory) + table;
  base.store(at, memory_order_release);
  return at;
}

[[noreturn]] LOFT_COLD void report_no_nothing(const char* call, const void* p) {
  os::fault(Text() << call << " of " << p
                   << ", where no object of size 0 is (freed before, or never allocated)");
}

// The bit of the object that would be at p.
bool is_there(const void* p, size_t* word, uint64_t* bit) {
  const uintptr_t offset = reinterpret_cast<uintptr_t>(p) - base.load(memory_order_acquire);
  const size_t index = offset >> kStepLog;
  *word = index / 64;
  *bit = uint64_t{1} << index % 64;
  return offset % (size_t{1} << kStepLog) == 0;
}

}  // namespace

void* make_nothing() {
  const uintptr_t at = region();
  if (LOFT_UNLIKELY(at == 0)) return nullptr;
  for (size_t tries = 0; tries < kMostNothings; ++tries) {
    const size_t index = next_nothing.fetch_add(1, memory_order_relaxed) % kMostNothings;
    const uint64_t bit = uint64_t{1} << index % 64;
    // Relaxed: the bit is all that there is of the object; who passes it on orders the rest.
    if ((bits[index / 64].fetch_or(bit, memory_order_relaxed) & bit) == 0) {
      return reinterpret_cast<void*>(at + (index << kStepLog));
    }
  }
  return nullptr;
}

bool is_nothing(const void* p) {
  const uintptr_t at = base.load(memory_order_acquire);
  return at != 0 && reinterpret_cast<uintptr_t>(p) - at < kBytes;
}

void check_nothing(const char* call, const void* p) {
  size_t word = 0;
  uint64_t bit = 0;
  if (!is_there(p, &word, &bit) || (bits[word].load(memory_order_relaxed) & bit) == 0) {
    report_no_nothing(call, p);
  }
}

void free_nothing(const char* call, void* p) {
  size_t word = 0;
  uint64_t bit = 0;
  if (!is_there(p, &word, &bit)) report_no_nothing(call, p);
  if ((bits[word].fetch_and(~bit, memory_order_relaxed) & bit) == 0) report_no_nothing(call, p);
}

}  // namespace loft::hardened
