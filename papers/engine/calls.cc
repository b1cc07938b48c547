#include "engine/calls.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>

#include <bit>

#include "base/bits.h"
#include "base/keep.h"
#include "base/macros.h"
#include "engine/engine.h"
#include "engine/looks.h"
#include "engine/settings.h"
#include "os/fault.h"
#include "os/os.h"

namespace engine {

namespace {

constexpr size_t kLeastAlignment = 16;

void* invalid() {
  errno = EINVAL;
  return nullptr;
}

void print_counts() {
  const Counts all = counts();
  loft::Text line;
  line << "{\"frees_remote\": " << all.frees_remote << ", \"messages\": " << all.messages
       << ", \"exchanges\": " << all.exchanges << ", \"swaps\": " << all.swaps
       << ", \"swap_retries\": " << all.swap_retries << ", \"received\": " << all.received
       << ", \"forwarded\": " << all.forwarded << ", \"locks\": " << all.locks
       << ", \"lock_waits\": " << all.lock_waits << ", \"batches\": " << all.batches
       << ", \"batch_objects\": " << all.batch_objects << ", \"evictions\": " << all.evictions
       << ", \"heap_kib\": " << (all.heap_bytes >> 10) << ", \"longest_look\": " << all.longest_look
       << ", \"look_p999\": " << most_but_for_a_thousandth(all) << "}\n";
  loft::os::write_error(line.data(), line.size());
}

void in_parent() { finish_fork(false); }
void in_child() { finish_fork(true); }

// After the constructors of loft (101 and 102): these handlers then surround its own.
__attribute__((constructor(103))) void start() {
  pthread_atfork(prepare_fork, in_parent, in_child);
}

// PAPER_COUNTS=1: the counts as one line of JSON, when the process ends.
__attribute__((destructor(101))) void end() {
  const char* const wanted = engine::variable_of("PAPER_COUNTS");
  if (wanted != nullptr && *wanted == '1') print_counts();
}

}  // namespace

uint64_t most_but_for_a_thousandth(const Counts& all) {
  uint64_t calls = 0;
  for (unsigned entry = Counts::kLooks; entry-- != 0;) {
    calls += all.looks[entry];
    if (calls > all.frees_remote / 1000) return Looks::least_of(entry);
  }
  return 0;
}

void* checked_allocate(size_t bytes) {
  void* const p = bytes <= PTRDIFF_MAX ? allocate(bytes == 0 ? 1 : bytes) : nullptr;
  return LOFT_LIKELY(p != nullptr) ? p : loft::os::out_of_memory();
}

void* checked_allocate(size_t alignment, size_t bytes) {
  if (alignment <= kLeastAlignment) return checked_allocate(bytes);
  void* const p = bytes <= PTRDIFF_MAX && alignment <= PTRDIFF_MAX
                      ? allocate_aligned(alignment, bytes == 0 ? 1 : bytes)
                      : nullptr;
  return LOFT_LIKELY(p != nullptr) ? p : loft::os::out_of_memory();
}

void* allocate_array(size_t count, size_t bytes) {
  size_t all = 0;
  if (__builtin_mul_overflow(count, bytes, &all)) return loft::os::out_of_memory();
  void* const p = checked_allocate(all);
  if (p == nullptr) return nullptr;
  const size_t zero = zero_bytes(p);
  if (zero < all) __builtin_memset(static_cast<char*>(p) + zero, 0, all - zero);
  return p;
}

void* resize(void* p, size_t bytes) {
  if (p == nullptr) return checked_allocate(bytes);
  if (bytes == 0) {
    deallocate(p);
    return nullptr;
  }
  const size_t old = usable_size(p);
  // Within half of what there is, it moves, so that memory is not kept for ever.
  if (bytes <= old && bytes >= old / 2) return p;
  void* const to = checked_allocate(bytes);
  if (to == nullptr) return nullptr;
  __builtin_memcpy(to, p, loft::least(old, bytes));
  deallocate(p);
  return to;
}

void* resize_array(void* p, size_t count, size_t bytes) {
  size_t all = 0;
  if (__builtin_mul_overflow(count, bytes, &all)) return loft::os::out_of_memory();
  return resize(p, all);
}

void* allocate_strictly(size_t alignment, size_t bytes) {
  return loft::is_power_of_two(alignment) ? checked_allocate(alignment, bytes) : invalid();
}

void* allocate_loosely(size_t alignment, size_t bytes) {
  if (alignment > SIZE_MAX / 2 + 1) return invalid();
  return checked_allocate(std::bit_ceil(alignment), bytes);
}

int allocate_to(void** to, size_t alignment, size_t bytes) {
  if (!loft::is_power_of_two(alignment) || alignment % sizeof(void*) != 0) return EINVAL;
  const loft::KeepErrno keep;
  void* const p = checked_allocate(alignment, bytes);
  if (p == nullptr) return ENOMEM;
  *to = p;
  return 0;
}

void* allocate_pages(size_t bytes) { return checked_allocate(loft::os::page_size(), bytes); }

void* allocate_whole_pages(size_t bytes) {
  const size_t page = loft::os::page_size();
  if (bytes > PTRDIFF_MAX) return loft::os::out_of_memory();
  return checked_allocate(page, loft::round_up(bytes == 0 ? 1 : bytes, page));
}

void deallocate(void* p) {
  if (p == nullptr) return;
  const loft::KeepErrno keep;
  release(p);
}

size_t usable(const void* p) { return p == nullptr ? 0 : usable_size(p); }

}  // namespace engine
