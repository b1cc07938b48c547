#include "unwind/cfi.h"

#include "unwind/entry.h"
#include "unwind/expression.h"

namespace loft::unwind {

namespace {

constexpr int64_t kSaved = 8;  // bytes of a saved register

// Expressions are kept as the place of their length: rows stay small, and lie on a program's stack.
// Both have been read before.
Bytes expression_at(const Image& image, const uint8_t* at) {
  Bytes bytes(at, image.entries.end);
  const uint64_t length = bytes.number();
  return bytes.part(length);
}

// Where a register's value for the caller is, as the instructions say.
struct Saved {
  enum How : uint8_t { kUntouched, kUndefined, kAtOffset, kByExpression, kOtherwise };

  How how = kUntouched;
  int64_t offset = 0;  // from the CFA, in bytes
  const uint8_t* expression = nullptr;
};

// What holds at one instruction.
struct Row {
  uint64_t base = Described::kRsp;
  int64_t offset = 0;
  bool by_expression = false;
  const uint8_t* expression = nullptr;
  Saved frame, rbx, pc;
};

int64_t times(uint64_t a, int64_t b) {
  return static_cast<int64_t>(a * static_cast<uint64_t>(b));  // wraps
}

// Runs the instructions up to those about later code.
class Program {
 public:
  Program(const Function& function, uintptr_t pc) : function_(function), pc_(pc) {}

  bool run(Row* result) {
    run(function_.common.instructions);
    first_ = row_;
    at_ = function_.begin;
    run(function_.instructions);
    *result = row_;
    return !failed_;
  }

 private:
  static constexpr unsigned kDeepest = 3;  // compilers remember one row, of where functions return

  // The numbers of instructions. The first three have an operand in their low six bits.
  enum Instruction : uint8_t {
    kAdvance = 0x40,
    kOffset = 0x80,
    kRestore = 0xc0,
    kNothing = 0,
    kSetPlace,
    kAdvance1,
    kAdvance2,
    kAdvance4,
    kOffsetLong,
    kRestoreLong,
    kUndefine,
    kSame,
    kInRegister,
    kRemember,
    kRecall,
    kCfa,
    kCfaRegister,
    kCfaOffset,
    kCfaExpression,
    kExpression,
    kOffsetSigned,
    kCfaSigned,
    kCfaOffsetSigned,
    kValueOffset,
    kValueOffsetSigned,
    kValueExpression,
    kArguments = 0x2e,
    kOffsetNegative,
  };

  void run(Bytes code) {
    while (!code.empty() && !failed_ && at_ <= pc_) step(code);
    if (code.failed()) failed_ = true;
  }

  void step(Bytes& code) {
    const uint8_t byte = code.byte();
    const uint8_t operand = byte & 0x3f;
    switch (byte & 0xc0) {
      case kAdvance:
        return advance(operand);
      case kOffset:
        return save(operand, Saved::kAtOffset, factored(code));
      case kRestore:
        return restore(operand);
      default:
        return step_long(byte, code);
    }
  }

  void step_long(uint8_t instruction, Bytes& code) {
    switch (instruction) {
      case kNothing:
        return;
      case kSetPlace:
        at_ = code.address(function_.common.address_form);
        return;
      case kAdvance1:
        return advance(code.byte());
      case kAdvance2:
        return advance(code.fixed<uint16_t>());
      case kAdvance4:
        return advance(code.fixed<uint32_t>());
      case kRestoreLong:
        return restore(code.number());
      case kRemember:
        if (depth_ == kDeepest) return fail();
        remembered_[depth_++] = row_;
        return;
      case kRecall:
        if (depth_ == 0) return fail();
        row_ = remembered_[--depth_];
        return;
      case kArguments:
        code.number();
        return;
      case kCfa:
      case kCfaRegister:
      case kCfaOffset:
      case kCfaExpression:
      case kCfaSigned:
      case kCfaOffsetSigned:
        return step_cfa(instruction, code);
      default:
        return step_register(instruction, code);
    }
  }

  void step_cfa(uint8_t instruction, Bytes& code) {
    row_.by_expression = instruction == kCfaExpression;
    switch (instruction) {
      case kCfa:
        row_.base = code.number();
        row_.offset = static_cast<int64_t>(code.number());
        return;
      case kCfaSigned:
        row_.base = code.number();
        row_.offset = factored_signed(code);
        return;
      case kCfaRegister:
        row_.base = code.number();
        return;
      case kCfaOffset:
        row_.offset = static_cast<int64_t>(code.number());
        return;
      case kCfaOffsetSigned:
        row_.offset = factored_signed(code);
        return;
      default:
        row_.expression = code.at();
        code.skip(code.number());
    }
  }

  void step_register(uint8_t instruction, Bytes& code) {
    const uint64_t number = code.number();
    switch (instruction) {
      case kOffsetLong:
        return save(number, Saved::kAtOffset, factored(code));
      case kOffsetSigned:
        return save(number, Saved::kAtOffset, factored_signed(code));
      case kOffsetNegative:
        return save(number, Saved::kAtOffset,
                    times(uint64_t{0} - code.number(), function_.common.data_unit));
      case kUndefine:
        return save(number, Saved::kUndefined, 0);
      case kSame:
        return save(number, Saved::kUntouched, 0);
      case kExpression: {
        const uint8_t* const expression = code.at();
        code.skip(code.number());
        if (Saved* saved = save_of(&row_, number)) *saved = {Saved::kByExpression, 0, expression};
        return;
      }
      case kInRegister:
      case kValueOffset:
        code.number();
        return save(number, Saved::kOtherwise, 0);
      case kValueOffsetSigned:
        code.signed_number();
        return save(number, Saved::kOtherwise, 0);
      case kValueExpression:
        code.skip(code.number());
        return save(number, Saved::kOtherwise, 0);
      default:
        return fail();
    }
  }

  // Registers that no CFA is reckoned from are not followed.
  static Saved* save_of(Row* row, uint64_t number) {
    if (number == Described::kRbp) return &row->frame;
    if (number == Described::kRbx) return &row->rbx;
    if (number == Described::kPc) return &row->pc;
    return nullptr;
  }
  void save(uint64_t number, Saved::How how, int64_t offset) {
    if (Saved* saved = save_of(&row_, number)) *saved = {how, offset, nullptr};
  }
  void restore(uint64_t number) {
    if (Saved* saved = save_of(&row_, number)) *saved = *save_of(&first_, number);
  }

  int64_t factored(Bytes& code) { return times(code.number(), function_.common.data_unit); }
  int64_t factored_signed(Bytes& code) {
    return times(static_cast<uint64_t>(code.signed_number()), function_.common.data_unit);
  }
  void advance(uint64_t by) {
    const uintptr_t next = at_ + by * function_.common.code_unit;
    if (next < at_) return fail();
    at_ = next;
  }
  void fail() { failed_ = true; }

  const Function& function_;
  uintptr_t pc_;
  uintptr_t at_ = 0;
  bool failed_ = false;
  unsigned depth_ = 0;
  Row row_;
  Row first_;  // after the common entry's instructions
  Row remembered_[kDeepest];
};

// What the rows say, made a rule.
class RuleMaker {
 public:
  RuleMaker(const Image& image, uintptr_t pc) : image_(image), pc_(pc) {}

  Rule rule_of(const Row& row) const {
    if (row.pc.how == Saved::kUndefined) return Rule::of(Rule::kOutermost);
    Described cfa;
    cfa.base = row.base;
    cfa.offset = row.offset;
    Rule rule = Rule::of(Rule::kFrame);
    if ((row.by_expression && !says(row.expression, nullptr, &cfa)) ||
        row.pc.how != Saved::kAtOffset || row.pc.offset != -kSaved || !put_cfa(&rule, cfa)) {
      return Rule::of(Rule::kUnknown);
    }
    put_saved(&rule, row.frame, Rule::kFramePlace, Rule::kFrameOffset);
    put_saved(&rule, row.rbx, Rule::kRbxPlace, Rule::kRbxOffset);
    return rule;
  }

  // Of a frame that the system made for a signal, as libc's restorer describes it. Anything else
  // that has the mark is not understood.
  Rule signal_rule(const Row& row) const {
    Described cfa;
    const bool expected = row.by_expression && says(row.expression, nullptr, &cfa) &&
                          cfa.base == Described::kRsp && cfa.loaded && cfa.more == 0 &&
                          cfa.offset == kRecordedStackPointer && is_recorded(row.pc, kRecordedPc) &&
                          is_recorded(row.frame, kRecordedFramePointer) &&
                          is_recorded(row.rbx, kRecordedRbx);
    return Rule::of(expected ? Rule::kSignal : Rule::kUnknown);
  }

 private:
  bool says(const uint8_t* expression, const Described* pushed, Described* value) const {
    return describe(expression_at(image_, expression), pc_, pushed, value);
  }

  bool is_recorded(const Saved& saved, int64_t offset) const {
    Described value;
    return saved.how == Saved::kByExpression && says(saved.expression, nullptr, &value) &&
           value.base == Described::kRsp && !value.loaded && value.offset == offset;
  }

  static bool put_words(Rule* rule, Rule::Field field, int64_t bytes) {
    return bytes % kSaved == 0 && rule->put(field, bytes / kSaved);
  }

  // Writes where the CFA is. False if a rule cannot say it.
  static bool put_cfa(Rule* rule, const Described& cfa) {
    int64_t base = Rule::kRbx;
    if (cfa.base == Described::kRsp) {
      base = cfa.loaded ? Rule::kAtStackPointer : Rule::kStackPointer;
    } else if (cfa.base == Described::kRbp) {
      base = cfa.loaded ? Rule::kAtFramePointer : Rule::kFramePointer;
    } else if (cfa.base != Described::kRbx || cfa.loaded) {
      return false;
    }
    return rule->put(Rule::kBase, base) && put_words(rule, Rule::kOffset, cfa.offset) &&
           put_words(rule, Rule::kMore, cfa.more);
  }

  // Writes where a register's value is. What a rule cannot say is lost, and matters only if a frame
  // further out reckons its CFA from it.
  void put_saved(Rule* rule, const Saved& saved, Rule::Field place, Rule::Field offset) const {
    if (saved.how == Saved::kUntouched) return;
    Described cfa;
    cfa.base = Described::kCfa;
    Described value = cfa;
    value.offset = saved.offset;
    const bool said =
        saved.how == Saved::kAtOffset || (saved.how == Saved::kByExpression &&
                                          says(saved.expression, &cfa, &value) && !value.loaded);
    int64_t from = Rule::kLost;
    if (said && value.base == Described::kCfa) from = Rule::kAtCfa;
    if (said && value.base == Described::kRbp) from = Rule::kAtFrame;
    if (from != Rule::kLost && !put_words(rule, offset, value.offset)) from = Rule::kLost;
    rule->put(place, from);
  }

  const Image& image_;
  uintptr_t pc_;
};

}  // namespace

Rule rule_at(const Image& image, const uint8_t* entry, uintptr_t pc) {
  Function function;
  Row row;
  if (!function.read(image, entry, pc) || !Program(function, pc).run(&row)) return {};
  const RuleMaker maker(image, pc);
  return function.common.signal ? maker.signal_rule(row) : maker.rule_of(row);
}

}  // namespace loft::unwind
