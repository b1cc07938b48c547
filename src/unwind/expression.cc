#include "unwind/expression.h"

namespace loft::unwind {

namespace {

// Operations, as DWARF numbers them.
enum Operation : uint8_t {
  kLoad = 0x06,
  kConst1u = 0x08,
  kConst1s,
  kConst2u,
  kConst2s,
  kConst4u,
  kConst4s,
  kConst8u,
  kConst8s,
  kConstUnsigned,
  kConstSigned,
  kAnd = 0x1a,
  kMinus = 0x1c,
  kPlus = 0x22,
  kPlusNumber = 0x23,
  kShiftLeft = 0x24,
  kGreaterOrEqual = 0x2a,
  kLiteral0 = 0x30,
  kRegister0 = 0x70,
  kRegisterNamed = 0x92,
};
constexpr uint8_t kLiterals = 32, kRegisters = 32;

// Wraps, as the machine does. Nothing here may overflow: the numbers come from a file.
int64_t sum(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t negative(int64_t a) { return static_cast<int64_t>(-static_cast<uint64_t>(a)); }

class Machine {
 public:
  Machine(uintptr_t pc, const Described* pushed) : pc_(pc) {
    if (pushed != nullptr) push(*pushed);
  }

  bool run(Bytes code, Described* result) {
    while (!code.empty() && !failed_) step(code);
    if (failed_ || code.failed() || depth_ == 0) return false;
    *result = stack_[depth_ - 1];
    return true;
  }

 private:
  static constexpr unsigned kDeepest = 8;  // the deepest that linkers write is 4

  void step(Bytes& code) {
    const uint8_t operation = code.byte();
    if (operation - unsigned{kLiteral0} < kLiterals) return push(operation - kLiteral0);
    if (operation - unsigned{kRegister0} < kRegisters) {
      return push_register(operation - unsigned{kRegister0}, code.signed_number());
    }
    switch (operation) {
      case kConst1u:
        return push(code.byte());
      case kConst1s:
        return push(code.fixed<int8_t>());
      case kConst2u:
        return push(code.fixed<uint16_t>());
      case kConst2s:
        return push(code.fixed<int16_t>());
      case kConst4u:
        return push(code.fixed<uint32_t>());
      case kConst4s:
        return push(code.fixed<int32_t>());
      case kConst8u:
      case kConst8s:
        return push(code.fixed<int64_t>());
      case kConstUnsigned:
        return push(static_cast<int64_t>(code.number()));
      case kConstSigned:
        return push(code.signed_number());
      case kRegisterNamed: {
        const uint64_t number = code.number();
        return push_register(number, code.signed_number());
      }
      case kLoad:
        return load();
      case kPlusNumber:
        push(static_cast<int64_t>(code.number()));
        return combine(kPlus);
      case kAnd:
      case kMinus:
      case kPlus:
      case kShiftLeft:
      case kGreaterOrEqual:
        return combine(operation);
      default:
        failed_ = true;
    }
  }

  void push(const Described& value) {
    if (depth_ == kDeepest) {
      failed_ = true;
    } else {
      stack_[depth_++] = value;
    }
  }
  void push(int64_t number) {
    Described value;
    value.offset = number;
    push(value);
  }
  void push_register(uint64_t number, int64_t offset) {
    // The instruction's own address is a number.
    if (number == Described::kPc) return push(sum(static_cast<int64_t>(pc_), offset));
    Described value;
    value.base = number;
    value.offset = offset;
    push(value);
  }
  Described pop() {
    if (depth_ == 0) {
      failed_ = true;
      return {};
    }
    return stack_[--depth_];
  }

  void load() {
    Described value = pop();
    if (value.loaded || value.base == Described::kNumber) {
      failed_ = true;
      return;
    }
    value.loaded = true;
    push(value);
  }

  void combine(uint8_t operation) {
    Described b = pop();
    Described a = pop();
    if (operation == kPlus && a.is_number()) {
      const Described other = a;
      a = b;
      b = other;
    }
    if (failed_ || !b.is_number()) {
      failed_ = true;
      return;
    }
    if (operation == kPlus || operation == kMinus) {
      int64_t& part = a.loaded ? a.more : a.offset;
      part = sum(part, operation == kPlus ? b.offset : negative(b.offset));
      return push(a);
    }
    if (!a.is_number()) {
      failed_ = true;
      return;
    }
    const auto bits = static_cast<uint64_t>(a.offset);
    const auto by = static_cast<uint64_t>(b.offset);
    if (operation == kAnd) return push(static_cast<int64_t>(bits & by));
    if (operation == kGreaterOrEqual) return push(a.offset >= b.offset ? 1 : 0);
    push(static_cast<int64_t>(by < 64 ? bits << by : 0));
  }

  uintptr_t pc_;
  unsigned depth_ = 0;
  bool failed_ = false;
  Described stack_[kDeepest];
};

}  // namespace

bool describe(Bytes expression, uintptr_t pc, const Described* pushed, Described* result) {
  return Machine(pc, pushed).run(expression, result);
}

}  // namespace loft::unwind
