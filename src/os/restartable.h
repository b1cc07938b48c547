// Restartable sequences: a few instructions on one processor's own data, without a lock and without
// an atomic instruction. The system runs a sequence from its first instruction to its last, the
// commit, or sends the thread to an abort address instead: whenever the thread was preempted, went
// to another processor or got a signal in between. So at most one thread at a time is inside a
// sequence on a processor, and what a sequence reads before its commit is still true at the commit,
// but for a stack that somebody takes from afar, below.
//
// The C library has registered each thread with the system (the words at `restartable.area` from
// the thread pointer); registering twice is not possible, so nothing is done without it. Another
// library may use the same registration: each sequence names itself, by the last store before its
// first instruction, and a signal handler that runs a sequence of its own aborts ours first.
//
// A stack is two words in a processor's block: `top` points to the last entry and `limit` to the
// highest place that may be filled. The place below the first entry is null. All that others can
// see change is `top`, by the commit: one instruction that adds to it in memory or subtracts. (One
// instruction less than to store the new top.) Who is not on the processor takes a stack by putting
// `closed`, which every sequence fails on, into its top, and by fence_processor(): after it no
// sequence that saw the old top can commit any more. One that did so before may have moved `closed`
// by an entry: every sequence fails on the neighbours of `closed`, too.
//
// Here is the assembler, for each architecture that has one; elsewhere kRestartable is false.
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
inline constexpr bool kRestartable = false;  // the thread sanitizer cannot see how these exclude
#endif

// What the sequences need to know, in one cache line. Written before the first of them runs.
struct alignas(64) Restartable {
  ptrdiff_t area = 0;  // from the thread pointer to what the thread shares with the system
  // By the number of the processor. Also at -1 and -2, which the system gives to a thread that is
  // not registered: who never may run a sequence finds a block there on which each of them fails.
  void** blocks = nullptr;
};
extern LOFT_HIDDEN Restartable restartable;

// What find_restartable found, once it has set `restartable.area`.
enum class Sequences {
  kCrash,  // they must not be run: the C library has no place for what the system says
  kFail,   // they may be run, and fail on the block at -1 or -2, or wherever they are
  kWork,   // the threads are registered, and there are fences
};
Sequences find_restartable();

// In the child of a fork: asks for fences anew.
void keep_fences();

// Every sequence that some thread of this process began on the processor before has committed or
// will abort when this returns, and what it wrote is visible. False if the system refuses.
bool fence_processor(unsigned number);

enum class Pushed { kYes, kNo, kNotTheOwner };

#if defined(LOFT_RESTARTABLE)

// The sequence's descriptor, and where it goes when it is aborted: the four bytes before it are
// what the C library told the system to look for there. Then names the sequence to the system;
// the label 1 follows the naming store at once, so that there is no moment between the two. The
// question marks: what belongs to an inline function that the linker drops goes with it.
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

// First wherever a sequence with a result goes on. GCC before 12.4 and 13.3 (its bug 113921) mixes
// up what it moves on the way out of such a statement: where one failed, what it had read came back
// in place of null, and was somebody else's by then. With a statement at both ends it moves nothing
// there.
#define LOFT_SEQUENCE_LEFT asm volatile("")

// Into `scratch`: the block of the processor that the sequence is on, whose number is signed.
#define LOFT_SEQUENCE_BLOCK              \
  "movslq %%fs:4(%[area]), %[scratch]\n" \
  "movq (%[blocks],%[scratch],8), %[scratch]\n"

#define LOFT_SEQUENCE_POP                \
  "movq (%[scratch],%[stack]), %[top]\n" \
  "movq (%[top]), %[object]\n"           \
  "testq %[object], %[object]\n"         \
  "jz %l[failed]\n"                      \
  "subq $8, (%[scratch],%[stack])\n"

// The entry goes above the top first: nobody looks there. Should the sequence be aborted after that
// store, it was made while the stack was ours, and the next push makes it again.
#define LOFT_SEQUENCE_PUSH                \
  "movq (%[scratch],%[stack]), %[top]\n"  \
  "cmpq 8(%[scratch],%[stack]), %[top]\n" \
  "jae %l[failed]\n"                      \
  "movq %[object], 8(%[top])\n"           \
  "addq $8, (%[scratch],%[stack])\n"

// Pops from the stack at the offset that the block's table at kTable has for `index`. nullptr if it
// is empty or closed, or the sequence was aborted.
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

// The same at an offset that the caller knows.
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

// False if the stack is full or closed, or the sequence was aborted.
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

// The same, with the offset in the sixteen highest bits of `where`, if its sixteen lowest are the
// block's first two bytes.
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

// Puts `closed` into *top and returns what was there, if the caller is on the processor `number`;
// nullptr if it is not or was disturbed.
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

// Nothing succeeds.
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
