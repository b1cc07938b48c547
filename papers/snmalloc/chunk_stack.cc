#include "snmalloc/chunk_stack.h"

#include "base/macros.h"
#include "base/peek.h"

// The builtin becomes the instruction only where the compiler may assume that there is one. Each
// x86-64 processor of the last fifteen years has it.
#if defined(__x86_64__)
#define SNMALLOC_WIDE_SWAP __attribute__((target("cx16")))
#else
#define SNMALLOC_WIDE_SWAP
#endif

namespace snmalloc {

namespace {

using Wide = unsigned __int128 __attribute__((may_alias));

// A full barrier: the release of a push publishes the block's words, the acquire of a pop sees
// them, and all that the last owner of the block had written.
SNMALLOC_WIDE_SWAP LOFT_NOINLINE bool swap_words(void* at, Wide from, Wide to) {
  return __sync_bool_compare_and_swap(static_cast<Wide*>(at), from, to);
}

}  // namespace

// Word by word. A pair that never was fails in swap: the incarnation grows with every success, so
// if it is still the same, no operation has succeeded since it was read, and the head read after it
// is of the same moment. Acquire keeps that order, and pairs with the swap of the push, whose words
// in the block the caller reads next.
ChunkStack::Head ChunkStack::load() const {
  Head head;
  head.incarnation = __atomic_load_n(&head_.incarnation, __ATOMIC_ACQUIRE);
  head.first = __atomic_load_n(&head_.first, __ATOMIC_ACQUIRE);
  return head;
}

bool ChunkStack::swap(const Head& from, const Head& to, SwapCounts& counts) {
  const bool done =
      swap_words(&head_, __builtin_bit_cast(Wide, from), __builtin_bit_cast(Wide, to));
  (done ? counts.succeeded : counts.failed).add(1);
  return done;
}

void ChunkStack::push(FreeBlock* block, SwapCounts& counts) {
  Head head;
  do {
    head = load();
    block->next = head.first;
  } while (!swap(head, {block, head.incarnation + 1}, counts));
}

FreeBlock* ChunkStack::pop(SwapCounts& counts) {
  for (;;) {
    const Head head = load();
    if (head.first == nullptr) return nullptr;
    // The block may be in use again, and this word the program's. The swap then fails.
    FreeBlock* const next = loft::peek(head.first->next);
    if (swap(head, {next, head.incarnation + 1}, counts)) return head.first;
  }
}

}  // namespace snmalloc
