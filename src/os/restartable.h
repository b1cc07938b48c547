// Restartable sequences: a few instructions on one processor's own data, without a lock and without
// an atomic instruction. The system runs a sequence from its first instruction to its last, the
// commit. It sends the thread to an abort address instead if, in between, the thread (a) was
// preempted; (b) moved to another processor; or (c) got a signal. At most one thread at a time is
// therefore inside a sequence on a processor. What a sequence reads before its commit still holds
// at the commit, except for a stack that is closed from another processor; see below.
//
// The C library registers each thread with the system (the words at `restartable.area` from the
// thread pointer). A thread cannot be registered twice, so loft depends on that registration. Other
// libraries may use it, too. Each sequence names itself by the last store before its first
// instruction. A signal handler that runs a sequence of its own aborts ours first.
//
// A stack is two words in a processor's block. `top` points to the last entry, `limit` to the
// highest slot that may be filled. The slot below the first entry is null. Others can see only
// `top` change, by the commit: one instruction that adds to it in memory or subtracts from it.
// (This saves the instruction that would store a new top.) A thread on another processor closes a
// stack in two steps: it puts `closed`, on which every sequence fails, into its top, and it calls
// fence_processor(). After the fence no sequence that saw the old top can commit. One that
// committed before the fence may have moved `closed` by an entry, so every sequence also fails on
// both neighbours of `closed`.
//
// The assembler for each supported architecture is here. Elsewhere kRestartable is false.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/macros.h"

#if defined(__x86_64__) && !defined(LOFT_THREAD_SANITIZER) && __has_include(<sys/rseq.h>)
#define LOFT_RESTARTABLE 1
#endif

namespace loft::os {

#if defined(LOFT_RESTARTABLE)
inline constexpr bool kRestartable = true;
#else
inline constexpr bool kRestartable = false;  // the thread sanitizer cannot see their exclusion
#endif

// The inputs of the sequences, in one cache line. Written before the first sequence runs.
struct alignas(64) Restartable {
  ptrdiff_t area = 0;  // from the thread pointer to the words shared with the system
  // Indexed by processor number, and by -1 and -2, the numbers of a thread that is not registered.
  // Such a thread must never complete a sequence: on the block at these places every sequence
  // fails.
  void** blocks = nullptr;
};
extern LOFT_HIDDEN Restartable restartable;

// The result of find_restartable, which sets `restartable.area` if the C library has one.
enum class Sequences {
  kCrash,  // sequences must not run: the C library has no area for the system's words
  kFail,   // sequences may run but fail: threads are not registered, or there are no fences
  kWork,   // threads are registered, and there are fences
};
Sequences find_restartable();

// In the child of a fork: requests fences again.
void keep_fences();

// When this returns, every sequence that a thread of this process began on the processor before the
// call has committed or will abort, and its writes are visible. False if the system refuses.
bool fence_processor(unsigned number);

enum class Pushed { kYes, kNo, kNotTheOwner };

#if defined(LOFT_RESTARTABLE)

// Emits the sequence's descriptor and its abort address. The four bytes before that address are the
// signature that the C library gave to the system. Then names the sequence to the system. Label 1
// directly follows the naming store, so nothing can happen between the two. The question marks in
// the section flags: if the linker drops an inline function, it also drops these parts of it.
#define LOFT_SEQUENCE_BEGIN                         \
  ".pushsection .data.rel.ro.loft_rseq,\"aw?\"\n"   \
  ".balign 32\n"                                    \
  "3: .long 0, 0\n"                                 \
  ".quad 1f, 2f - 1f, 4f\n"                         \
  ".popsection\n"                                   \
  ".pushsection .text.unlikely.loft_rseq,\"ax?\"\n" \
  ".byte 0x0f, 0xb9, 0x3d\n"                        \
  ".long 0x53053053\n"                              \
  "4: jmp %l[failed]\n"                             \
  ".popsection\n"                                   \
  "leaq 3b(%%rip), %[scratch]\n"                    \
  "movq %[scratch], %%fs:8(%[area])\n"              \
  "1:\n"
#define LOFT_SEQUENCE_END "2:\n"

// The first statement on both paths out of a sequence with a result. GCC before 12.4 and 13.3 (GCC
// bug 113921) confuses the moves on the edges that leave such a statement: a failed sequence
// returned the object it had read, by then another thread's, in place of null. With a statement at
// both ends, GCC puts no moves there.
#define LOFT_SEQUENCE_LEFT asm volatile("")

// Loads the block of the current processor into `scratch`. The processor number is signed.
#define LOFT_SEQUENCE_BLOCK              \
  "movslq %%fs:4(%[area]), %[scratch]\n" \
  "movq (%[blocks],%[scratch],8), %[scratch]\n"

#define LOFT_SEQUENCE_POP                \
  "movq (%[scratch],%[stack]), %[top]\n" \
  "movq (%[top]), %[object]\n"           \
  "testq %[object], %[object]\n"         \
  "jz %l[failed]\n"                      \
  "subq $8, (%[scratch],%[stack])\n"

// Fails for the object that was pushed last, too: it is freed twice. The entry first goes above the
// top, where nobody reads. If the sequence is aborted after that
// store, the store was made while the stack was ours, and the next push overwrites it.
#define LOFT_SEQUENCE_PUSH                \
  "movq (%[scratch],%[stack]), %[top]\n"  \
  "cmpq 8(%[scratch],%[stack]), %[top]\n" \
  "jae %l[failed]\n"                      \
  "cmpq %[object], (%[top])\n"            \
  "je %l[failed]\n"                       \
  "movq %[object], 8(%[top])\n"           \
  "addq $8, (%[scratch],%[stack])\n"

// Pops from the stack whose offset the block's table at kTable holds for `index`. nullptr if the
// stack is empty or closed, or the sequence was aborted.
template <size_t kTable>
LOFT_ALWAYS_INLINE void* pop_by_table(size_t index) {
  void* scratch;
  void* top;
  void* object;
  size_t stack;
  asm volatile goto(
      LOFT_SEQUENCE_BEGIN LOFT_SEQUENCE_BLOCK
      "movzwl %c[table](%[scratch],%[index],2), %k[stack]\n" LOFT_SEQUENCE_POP LOFT_SEQUENCE_END
      : [scratch] "=&r"(scratch), [top] "=&r"(top), [object] "=&r"(object), [stack] "=&r"(stack)
      : [area] "r"(restartable.area), [blocks] "r"(restartable.blocks), [index] "r"(index),
        [table] "i"(kTable)
      : "memory", "cc"
      : failed);
  LOFT_SEQUENCE_LEFT;
  if (object == nullptr) __builtin_unreachable();
  return object;
failed:
  LOFT_SEQUENCE_LEFT;
  return nullptr;
}

// As pop_by_table, at an offset that the caller knows.
LOFT_ALWAYS_INLINE void* pop(size_t stack) {
  void* scratch;
  void* top;
  void* object;
  asm volatile goto(
      LOFT_SEQUENCE_BEGIN LOFT_SEQUENCE_BLOCK LOFT_SEQUENCE_POP LOFT_SEQUENCE_END
      : [scratch] "=&r"(scratch), [top] "=&r"(top), [object] "=&r"(object)
      : [area] "r"(restartable.area), [blocks] "r"(restartable.blocks), [stack] "r"(stack)
      : "memory", "cc"
      : failed);
  LOFT_SEQUENCE_LEFT;
  if (object == nullptr) __builtin_unreachable();
  return object;
failed:
  LOFT_SEQUENCE_LEFT;
  return nullptr;
}

// False if the stack is full or closed or ends with the object, or the sequence was aborted.
LOFT_ALWAYS_INLINE bool push(void* object, size_t stack) {
  void* scratch;
  void* top;
  asm volatile goto(LOFT_SEQUENCE_BEGIN LOFT_SEQUENCE_BLOCK LOFT_SEQUENCE_PUSH LOFT_SEQUENCE_END
                    : [scratch] "=&r"(scratch), [top] "=&r"(top)
                    : [area] "r"(restartable.area), [blocks] "r"(restartable.blocks),
                      [stack] "r"(stack), [object] "r"(object)
                    : "memory", "cc"
                    : failed);
  return true;
failed:
  return false;
}

// As push, if the sixteen lowest bits of `where` equal the first two bytes of the block. The
// sixteen highest bits of `where` are the offset of the stack.
LOFT_ALWAYS_INLINE Pushed push_if_owner(void* object, uint64_t where) {
  void* scratch;
  void* top;
  asm volatile goto(
      LOFT_SEQUENCE_BEGIN LOFT_SEQUENCE_BLOCK
      "cmpw %w[stack], (%[scratch])\n"
      "jne %l[other]\n"
      "shrq $48, %[stack]\n" LOFT_SEQUENCE_PUSH LOFT_SEQUENCE_END
      : [scratch] "=&r"(scratch), [top] "=&r"(top), [stack] "+&r"(where)
      : [area] "r"(restartable.area), [blocks] "r"(restartable.blocks), [object] "r"(object)
      : "memory", "cc"
      : failed, other);
  return Pushed::kYes;
failed:
  return Pushed::kNo;
other:
  return Pushed::kNotTheOwner;
}

// If the caller is on processor `number`, puts `closed` into *top and returns the old value.
// nullptr if the caller is on another processor, or the sequence was aborted.
LOFT_ALWAYS_INLINE void** close_here(void*** top, void** closed, unsigned number) {
  void* scratch;
  void** before;
  asm volatile goto(
      LOFT_SEQUENCE_BEGIN
      "cmpl %k[number], %%fs:4(%[area])\n"
      "jne %l[failed]\n"
      "movq (%[place]), %[before]\n"
      "movq %[closed], (%[place])\n" LOFT_SEQUENCE_END
      : [scratch] "=&r"(scratch), [before] "=&r"(before)
      : [area] "r"(restartable.area), [number] "r"(number), [place] "r"(top), [closed] "r"(closed)
      : "memory", "cc"
      : failed);
  LOFT_SEQUENCE_LEFT;
  return before;
failed:
  LOFT_SEQUENCE_LEFT;
  return nullptr;
}

#undef LOFT_SEQUENCE_BEGIN
#undef LOFT_SEQUENCE_END
#undef LOFT_SEQUENCE_LEFT
#undef LOFT_SEQUENCE_BLOCK
#undef LOFT_SEQUENCE_POP
#undef LOFT_SEQUENCE_PUSH

#else

// Without sequences, every operation fails.
template <size_t kTable>
LOFT_ALWAYS_INLINE void* pop_by_table(size_t) {
  return nullptr;
}
LOFT_ALWAYS_INLINE void* pop(size_t) { return nullptr; }
LOFT_ALWAYS_INLINE bool push(void*, size_t) { return false; }
LOFT_ALWAYS_INLINE Pushed push_if_owner(void*, uint64_t) { return Pushed::kNo; }
LOFT_ALWAYS_INLINE void** close_here(void***, void**, unsigned) { return nullptr; }

#endif

}  // namespace loft::os
