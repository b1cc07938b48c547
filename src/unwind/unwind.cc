#include "unwind/unwind.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "base/keep_errno.h"
#include "base/macros.h"
#include "os/os.h"
#include "unwind/cfi.h"
#include "unwind/code.h"
#include "unwind/entry.h"
#include "unwind/registers.h"
#include "unwind/registers_other.h"
#include "unwind/registers_x86_64.h"
#include "unwind/rule_cache.h"
#include "unwind/stack.h"

namespace loft::unwind {

namespace {

constexpr uintptr_t kWord = sizeof(uintptr_t);
// By frame pointer: a function whose frame is longer is not believed to have one.
constexpr uintptr_t kLongestFrame = uintptr_t{1} << 20;
// Functions that are not written down: libloft.so's own.
constexpr size_t kMostLeftOut = 32;
// Fewer are as good as none.
constexpr size_t kTooFew = 2;

// Zeroed memory of the system, from `prepare` on: as a variable it would count for every program
// that locks its memory.
constinit RuleCache* rules = nullptr;

// Release and acquire pair: who sees it set also sees what note_code has written.
constinit Atomic<bool> prepared{false};

class Walk {
 public:
  explicit Walk(const Registers& registers) : at_(registers), stack_(registers.stack) {}

  // Goes on to the caller. False if there is none, or it cannot be found.
  bool step() {
    // A return address is behind the call, which may be a function's last instruction.
    const uintptr_t pc = exact_ ? at_.pc : at_.pc - 1;
    const Rule rule = kReadsFrameInformation && at_.pc != 0 ? rule_for(pc) : Rule();
    exact_ = false;
    switch (rule.kind()) {
      case Rule::kFrame:
        return step_by(rule);
      case Rule::kSignal:
        return step_over_signal();
      case Rule::kNone:
        return kReadsFrameInformation ? step_by_code() : step_by_frame_pointer();
      case Rule::kOutermost:
      case Rule::kUnknown:  // the frame pointer may have anything then: a short stack is no wrong
                            // one
        return false;
    }
    return false;
  }

  uintptr_t pc() const { return at_.pc; }

 private:
  // Code that may be unloaded, as far as the walk has met it: it cannot be while it runs.
  struct Met {
    Image image;
    CommonPrint common;
  };

  Met* present(uintptr_t pc) {
    for (Met& met : met_) {
      if (met.image.covers(pc)) return &met;
    }
    Image image;
    if (!find_present(pc, &image)) return nullptr;
    Met& next = met_[next_met_++ % kMostMet];
    next = {image, CommonPrint()};
    return &next;
  }

  Rule rule_for(uintptr_t pc) {
    Kept kept;
    if (LOFT_LIKELY(rules->find(pc, &kept))) {
      if (LOFT_LIKELY(kept.entry == 0)) return kept.rule;
      Met* const met = present(pc);
      if (met != nullptr && fingerprint(met->image, reinterpret_cast<const uint8_t*>(kept.entry),
                                        &met->common) == kept.print) {
        return kept.rule;
      }
    }
    return find_rule(pc);
  }

  LOFT_NOINLINE Rule find_rule(uintptr_t pc) {
    const Image* const lasting = find_lasting(pc);
    Met* const met = lasting != nullptr ? nullptr : present(pc);
    if (lasting == nullptr && met == nullptr) return {};
    const Image* const image = lasting != nullptr ? lasting : &met->image;
    Kept kept;
    const uint8_t* const entry = find_entry(*image, pc);
    if (entry != nullptr) kept.rule = rule_at(*image, entry, pc);
    if (kept.rule.kind() == Rule::kNone) {
      // Only of code that stays: nothing tells whether other code has changed.
      if (lasting == nullptr) return {};
      if (is_restorer_of(*image)) kept.rule = Rule::of(Rule::kSignal);
    } else if (lasting == nullptr) {
      kept.entry = reinterpret_cast<uintptr_t>(entry);
      kept.print = fingerprint(*image, entry, &met->common);
      if (kept.print == 0) return kept.rule;
    }
    rules->keep(pc, kept);
    return kept.rule;
  }

  // A handler returns to its first instruction.
  bool is_restorer_of(const Image& image) const {
    return image.reads_code && image.covers(at_.pc) && image.covers(at_.pc + kRestorerBytes) &&
           is_restorer(at_.pc);
  }

  bool step_by(Rule rule) {
    uintptr_t cfa = at_.stack;
    const int64_t base = rule.get(Rule::kBase);
    if (base == Rule::kFramePointer || base == Rule::kAtFramePointer) cfa = at_.frame;
    if (base == Rule::kRbx) cfa = at_.rbx;
    cfa += words(rule.get(Rule::kOffset));
    if (base >= Rule::kAtStackPointer) {
      if (cfa < at_.stack || !stack_.read(cfa, &cfa)) return false;
      cfa += words(rule.get(Rule::kMore));
    }
    // A caller's frame is further out. So the walk comes to an end.
    if (cfa <= at_.stack) return false;
    uintptr_t pc = 0;
    if (!stack_.read(cfa - kWord, &pc)) return false;
    const uintptr_t frame = at_.frame;
    if (!restore(rule.get(Rule::kFramePlace), rule.get(Rule::kFrameOffset), cfa, frame,
                 &at_.frame) ||
        !restore(rule.get(Rule::kRbxPlace), rule.get(Rule::kRbxOffset), cfa, frame, &at_.rbx)) {
      return false;
    }
    return go(pc, cfa);
  }

  // False if the place cannot be read.
  bool restore(int64_t place, int64_t offset, uintptr_t cfa, uintptr_t frame, uintptr_t* value) {
    if (place == Rule::kSame) return true;
    if (place == Rule::kLost) {
      *value = 0;
      return true;
    }
    return stack_.read((place == Rule::kAtCfa ? cfa : frame) + words(offset), value);
  }

  bool step_over_signal() {
    const uintptr_t record = at_.stack;
    uintptr_t pc = 0, stack = 0;
    if (!stack_.read(record + kRecordedPc, &pc) ||
        !stack_.read(record + kRecordedStackPointer, &stack) ||
        !stack_.read(record + kRecordedFramePointer, &at_.frame) ||
        !stack_.read(record + kRecordedRbx, &at_.rbx)) {
      return false;
    }
    exact_ = true;
    return go(pc, stack);
  }

  // What a program has made to stand between its own functions on the stack returns as soon as it
  // is returned to. Python makes such code, one piece for each of its functions, for profilers to
  // see. Of other code without information nothing is known, and the stack ends: its frame pointer
  // may be any number, and memory that is not the thread's own may go while it is read. The code is
  // what the thread returns to, and what is above its stack pointer is its own, so both stay.
  bool step_by_code() {
    const uintptr_t first = round_down(at_.pc, kWord), bits = at_.pc % kWord * 8;
    uintptr_t code = 0, more = 0, pc = 0;
    // Behind the end of a page may be anything.
    if (at_.pc % os::page_size() > os::page_size() - kReturnBytes) return false;
    if (!code_.read(first, &code)) return false;
    if (bits != 0) {
      if (at_.pc % kWord + kReturnBytes > kWord && !code_.read(first + kWord, &more)) return false;
      code = code >> bits | more << (8 * kWord - bits);
    }
    uintptr_t bytes = 0;
    if (!returns_from(code, &bytes) || !stack_.read(at_.stack + bytes, &pc)) return false;
    return go(pc, at_.stack + bytes + kWord);
  }

  // Where no information is read. What functions with a frame pointer begin with leaves there the
  // caller's, and below it the return address. Of other functions the register may have anything.
  bool step_by_frame_pointer() {
    const uintptr_t record = at_.frame + static_cast<uintptr_t>(kFrameRecord);
    if (at_.frame < at_.stack || at_.frame - at_.stack > kLongestFrame) return false;
    uintptr_t frame = 0, pc = 0;
    if (!stack_.read(record, &frame) || !stack_.read(record + kWord, &pc)) return false;
    pc = stripped(pc);
    if (find_lasting(pc) == nullptr && !is_readable(round_down(pc, kWord))) return false;
    at_.frame = frame;
    return go(pc, record + 2 * kWord);
  }

  bool go(uintptr_t pc, uintptr_t stack) {
    at_.pc = pc;
    at_.stack = stack;
    return pc != 0;
  }

  static uintptr_t words(int64_t count) { return static_cast<uintptr_t>(count) * kWord; }

  Registers at_;
  bool exact_ = true;
  Stack stack_;
  Stack code_;
  static constexpr unsigned kMostMet = 4;
  Met met_[kMostMet];
  unsigned next_met_ = 0;
};

}  // namespace

bool prepare() {
  static constinit Atomic<uint32_t> begun{0};  // relaxed: it only says who is first
  if (prepared.load(memory_order_acquire)) return true;
  if (begun.exchange(1, memory_order_relaxed) != 0) return false;
  const KeepErrno keep;  // the loader looks for a library in several places
  if (!can_tell_readable()) return false;
  void* const memory = os::reserve(sizeof(RuleCache));
  if (memory == nullptr || !os::commit(memory, sizeof(RuleCache))) return false;
  rules = static_cast<RuleCache*>(memory);
  note_code();
  prepared.store(true, memory_order_release);
  return true;
}

bool is_own_code(uintptr_t pc) { return own_code().covers(pc); }

LOFT_NOINLINE size_t capture(uintptr_t* frames, size_t most, bool may_wait) {
  if (!prepared.load(memory_order_acquire)) return 0;
  Walk walk(registers_here());
  size_t count = 0;
  size_t left_out = 0;
  while (count < most && walk.step()) {
    if (count != 0 || !is_own_code(walk.pc())) {
      frames[count++] = walk.pc();
    } else if (++left_out == kMostLeftOut) {
      break;
    }
  }
  // A library that was loaded later, of which nothing is known without the loader's help.
  if (may_wait && count < least(most, kTooFew) && !has_finder()) {
    const size_t walked = walk_by_compiler(frames, most);
    if (walked != 0) return walked;
  }
  return count;
}

}  // namespace loft::unwind
