// What a frame's caller is found with, at one instruction: the essence of the call frame
// information that compilers write (`.eh_frame`), in one word. The names of the registers are those
// of x86-64, the only architecture whose call frame information is read here.
//
// The frame's address (CFA) is what the stack pointer was before the call. Below it lies the return
// address. Offsets count words.
#pragma once

#include <cstdint>

namespace loft::unwind {

class Rule {
 public:
  enum Kind : int64_t {
    kNone,       // no call frame information is about the instruction
    kFrame,      // as the other fields say
    kOutermost,  // the stack ends here
    kSignal,     // the system's record of the interrupted registers is at the stack pointer
    kUnknown,    // there is information, of a form that is not understood
  };
  // Where the CFA is: a register plus the offset; or what is in memory there, plus `more`.
  enum Base : int64_t { kStackPointer, kFramePointer, kRbx, kAtStackPointer, kAtFramePointer };
  // Where a register's value for the caller is: where it was; at the CFA plus the offset; at the
  // frame pointer plus the offset; nowhere.
  enum Place : int64_t { kSame, kAtCfa, kAtFrame, kLost };

  struct Field {
    unsigned at;
    unsigned width;
  };
  static constexpr Field kKind{0, 4};
  static constexpr Field kBase{4, 4};
  static constexpr Field kOffset{8, 20};
  static constexpr Field kMore{28, 5};
  static constexpr Field kFramePlace{33, 3};
  static constexpr Field kFrameOffset{36, 12};
  static constexpr Field kRbxPlace{48, 3};
  static constexpr Field kRbxOffset{51, 12};

  constexpr Rule() = default;
  constexpr explicit Rule(uint64_t bits) : bits_(bits) {}
  static constexpr Rule of(Kind kind) { return Rule(static_cast<uint64_t>(kind)); }

  constexpr uint64_t bits() const { return bits_; }
  constexpr Kind kind() const { return static_cast<Kind>(get(kKind)); }

  // All fields are signed.
  constexpr int64_t get(Field field) const {
    const uint64_t high = bits_ << (64 - field.at - field.width);
    return static_cast<int64_t>(high) >> (64 - field.width);
  }
  // False, and nothing is written, if the value does not fit. The field was zero.
  constexpr bool put(Field field, int64_t value) {
    const int64_t most = (int64_t{1} << (field.width - 1)) - 1;
    if (value > most || value < -most - 1) return false;
    const uint64_t mask = (uint64_t{1} << field.width) - 1;
    bits_ |= (static_cast<uint64_t>(value) & mask) << field.at;
    return true;
  }

 private:
  uint64_t bits_ = 0;
};

// Where the system's record of a signal (ucontext_t) has the interrupted registers, in bytes.
inline constexpr int64_t kRecordedFramePointer = 120, kRecordedRbx = 128,
                         kRecordedStackPointer = 160, kRecordedPc = 168;

}  // namespace loft::unwind
