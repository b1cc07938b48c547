// The rules of instructions that were asked for lately, for all threads, without a lock.
//
// An entry is four words, which are read and written one by one. The first is a sum of the others
// and of the instruction's address. Whoever reads an entry while another thread writes it may see
// words of two entries; then the sum is wrong, and the entry counts as another instruction's. So
// nothing depends on an order of the words.
//
// A rule of code that is never unloaded stays true. That of other code ends with the code, and
// another library may then lie at the same addresses. Such an entry has the place of the call frame
// information (`entry`) and a number of its bytes (`print`); who uses it compares the bytes with
// those that are there now.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "unwind/rule.h"

namespace loft::unwind {

struct Kept {
  Rule rule;
  uintptr_t entry = 0;  // 0: the code stays
  uint64_t print = 0;
};

class RuleCache {
 public:
  bool find(uintptr_t pc, Kept* kept) const {
    const Slot& slot = slots_[index(pc)];
    // Relaxed, all four: the sum tells whether they belong together, and what they say is checked
    // against nothing else in memory.
    const uint64_t sum = slot.sum.load(memory_order_relaxed);
    kept->rule = Rule(slot.rule.load(memory_order_relaxed));
    kept->entry = slot.entry.load(memory_order_relaxed);
    kept->print = slot.print.load(memory_order_relaxed);
    return sum == sum_of(pc, *kept);
  }

  void keep(uintptr_t pc, const Kept& kept) {
    Slot& slot = slots_[index(pc)];
    // Relaxed: as above.
    slot.sum.store(sum_of(pc, kept), memory_order_relaxed);
    slot.rule.store(kept.rule.bits(), memory_order_relaxed);
    slot.entry.store(kept.entry, memory_order_relaxed);
    slot.print.store(kept.print, memory_order_relaxed);
  }

 private:
  // 64 KiB, of which the system provides what is used. A large program has some thousand places
  // that call on the way to malloc.
  static constexpr unsigned kIndexBits = 11;
  static constexpr uint64_t kOdd = 0x9e3779b97f4a7c15, kOdd2 = 0xd6e8feb86659fd93;

  struct Slot {
    Atomic<uint64_t> sum{0};
    Atomic<uint64_t> rule{0};
    Atomic<uintptr_t> entry{0};
    Atomic<uint64_t> print{0};
  };

  static size_t index(uintptr_t pc) { return uint64_t{pc} * kOdd >> (64 - kIndexBits); }
  // Each step is a bijection of what it adds: two entries that differ in one word have different
  // sums. No address but 0 has the sum of an empty slot.
  static uint64_t sum_of(uintptr_t pc, const Kept& kept) {
    uint64_t sum = uint64_t{pc} * kOdd;
    sum = (std::rotl(sum, 32) ^ kept.rule.bits()) * kOdd2;
    sum = (std::rotl(sum, 32) ^ kept.entry) * kOdd;
    return (std::rotl(sum, 32) ^ kept.print) * kOdd2;
  }

  Slot slots_[size_t{1} << kIndexBits];
};

}  // namespace loft::unwind
