// Stacks are followed by libgcc's unwinder, of which this library has a copy to itself: its names
// are hidden, so no code that is made at run time is registered with it. It would look such code up
// under a lock, and sort it in memory from malloc. Without any it takes no lock and allocates
// nothing but a first time, which `begin` is (docs/decisions/094-inspect.md has the whole
// argument).
#include "inspect/stack.h"

#include <string.h>
#include <unwind.h>

#include "base/macros.h"
#include "inspect/loader.h"
#include "inspect/memory.h"

namespace loft::inspect {

namespace {

// Functions that are not written down: libloft.so's own.
constexpr size_t kMostLeftOut = 32;

// Written by `begin`, before anybody else calls.
uintptr_t own_begin = 0;
uintptr_t own_bytes = 0;

struct Walk {
  uintptr_t* frames;
  size_t most;
  size_t count = 0;
  size_t left_out = 0;
  bool entered = false;  // the first frame is `capture` itself
};

_Unwind_Reason_Code note_frame(_Unwind_Context* context, void* closure) {
  auto& walk = *static_cast<Walk*>(closure);
  const uintptr_t pc = _Unwind_GetIP(context);
  if (pc == 0) return _URC_END_OF_STACK;
  if (!walk.entered) {
    walk.entered = true;
    return _URC_NO_REASON;
  }
  if (walk.count == 0 && pc - own_begin < own_bytes) {
    return ++walk.left_out == kMostLeftOut ? _URC_END_OF_STACK : _URC_NO_REASON;
  }
  walk.frames[walk.count++] = pc;
  return walk.count == walk.most ? _URC_END_OF_STACK : _URC_NO_REASON;
}

// libgcc's: where the frame information of a function begins, and where the function does.
struct Bases {
  void* of_text;
  void* of_data;
  void* function;
};

// Frame information of all code alike: a common entry with five bytes of instructions, and an entry
// that has no more of them.
struct alignas(4) Information {
  uint32_t common_bytes = 16;
  uint32_t common_mark = 0;
  uint8_t version = 1;
  uint8_t augmentation = 0;  // none
  uint8_t code_alignment = 1;
  uint8_t data_alignment = 0x78;  // -8
  uint8_t return_column;
  uint8_t instructions[5];
  uint8_t padding[2] = {};
  uint32_t entry_bytes = 4 + 2 * sizeof(uintptr_t);
  uint32_t to_common = 4 + 20;
  uint8_t range[2 * sizeof(uintptr_t)] = {};
};
static_assert(sizeof(Information) == 28 + 2 * sizeof(uintptr_t));

// Nobody has called it: DW_CFA_def_cfa_expression (DW_OP_lit0), DW_CFA_undefined.
constexpr Information kOutermost = {.return_column = 0, .instructions = {0x0f, 1, 0x30, 0x07, 0}};

#if defined(__x86_64__)
// What `add $8, %rsp; ret` returns to: DW_CFA_def_cfa (rsp, 16), DW_CFA_offset (rip, 1).
constexpr Information kReturning = {.return_column = 16,
                                    .instructions = {0x0c, 7, 16, 0x80 | 16, 1}};
constexpr uint8_t kReturn[] = {0x48, 0x83, 0xc4, 8, 0xc3};
#endif

// Of code that no table knows, and that can be read: nullptr.
const void* information_of([[maybe_unused]] uintptr_t pc) {
#if defined(__x86_64__)
  // Python makes such code, one piece for each of its functions, for profilers to see (-X perf).
  // The return address is one further on.
  if (memcmp(reinterpret_cast<const void*>(pc + 1), kReturn, sizeof(kReturn)) == 0) {
    return &kReturning.entry_bytes;
  }
#endif
  return nullptr;
}

}  // namespace

}  // namespace loft::inspect

// As in loader.cc.
extern "C" {
const void* __real__Unwind_Find_FDE(void* pc, loft::inspect::Bases* bases);
const void* __wrap__Unwind_Find_FDE(void* pc, loft::inspect::Bases* bases);
}

// Where libgcc finds no frame information it reads the instructions, in case they are what a
// signal's handler returns to. So they must be there: a program that calls what is no code has the
// address on its stack, and a stack that was not made by calls may have any number.
extern "C" const void* __wrap__Unwind_Find_FDE(void* pc, loft::inspect::Bases* bases) {
  using namespace loft::inspect;
  const void* const entry = __real__Unwind_Find_FDE(pc, bases);
  if (entry != nullptr) return entry;
  bases->function = nullptr;
  constexpr uintptr_t kWord = 8;
  const auto at = reinterpret_cast<uintptr_t>(pc);
  if (!is_readable(at) || !is_readable(at + kWord)) return &kOutermost.entry_bytes;
  return information_of(at);
}

namespace loft::inspect {

const char* begin(const void* own) {
  if (!has_finder()) return "the C library has no _dl_find_object, which glibc has since 2.35";
  // Where it finds nothing about itself, libgcc ends the process.
  Bases bases;
  if (__real__Unwind_Find_FDE(reinterpret_cast<void*>(&capture), &bases) == nullptr) {
    return "nothing tells where the program's frame information lies";
  }
  FoundObject found;
  if (own != nullptr && find_object(reinterpret_cast<uintptr_t>(own), &found)) {
    own_begin = reinterpret_cast<uintptr_t>(found.begin);
    own_bytes = reinterpret_cast<uintptr_t>(found.end) - own_begin;
  }
  // libgcc's first call waits for other threads' first calls.
  uintptr_t frame = 0;
  capture(&frame, 1);
  return nullptr;
}

LOFT_NOINLINE size_t capture(uintptr_t* frames, size_t most) {
  if (most == 0) return 0;
  Walk walk = {frames, most};
  _Unwind_Backtrace(note_frame, &walk);
  return walk.count;
}

}  // namespace loft::inspect
