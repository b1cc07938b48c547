// NextGen-Malloc (HotOS '23), Pseudo Code 1, as it is printed: a dedicated thread executes every
// malloc and free, application threads post a request into a mailbox and spin for the answer.
// README.md says what the listing leaves open and how that was closed here.
//
// A library of its own, libloft-nextgen.so: loft's floors serve as the paper's normal_malloc, which
// nobody but the dedicated thread calls, and whose metadata lies apart from the objects.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <atomic>
#include <new>

#include "api/new_failure.h"
#include "api/surface.h"
#include "base/bits.h"
#include "base/macros.h"
#include "front/allocate.h"
#include "os/os.h"
#include "os/own_thread.h"
#include "space/metadata.h"
#include "space/span.h"

namespace {

using loft::os::pause_briefly;

// What the room is asked for: a function of two words.
using Work = void* (*)(uintptr_t, uintptr_t);

// One for each thread; used by one thread at a time, given back when it ends, never destroyed.
// Invariant: while `ready` is set, all but `ready` and `done` are the room's; otherwise the
// owner's.
struct alignas(64) Mailbox {
  std::atomic<bool> ready{false};  // the paper's malloc_ready
  std::atomic<bool> done{false};   // malloc_done
  Work work{};
  uintptr_t first{};  // requested_size
  uintptr_t second{};
  void* block{};  // allocated_block
  std::atomic<bool> owned{true};
  Mailbox* older{};  // never changes
};

enum State : uint32_t { kTooEarly, kNone, kStarting, kOn, kRefused };
loft::Atomic<uint32_t> state{kTooEarly};
void room();
constinit loft::os::OwnThread thread(state, {kNone, kStarting, kRefused, kRefused}, room);
std::atomic<Mailbox*> newest{nullptr};
std::atomic<unsigned long> served{0};
pthread_key_t exit_key;

__thread Mailbox* own_box __attribute__((tls_model("initial-exec"))) = nullptr;
// The room itself, and threads past their end: they call what the room would call.
__thread bool alone __attribute__((tls_model("initial-exec"))) = false;

// Spins before it lets others run. The paper has a core for the room; where there is none, a spin
// would keep the very thread off the processor that it waits for.
constexpr unsigned kSpins = 1000;
class Spin {
 public:
  void wait() {
    if (++spins_ % kSpins == 0) {
      loft::os::doze();
    } else {
      pause_briefly();
    }
  }

 private:
  unsigned spins_ = 0;
};

// The highest processor that the process may use, or NEXTGEN_CPU's.
void pin() {
  cpu_set_t all;
  if (sched_getaffinity(0, sizeof(all), &all) != 0 || CPU_COUNT(&all) < 2) return;
  size_t chosen = 0;
  for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &all)) chosen = cpu;
  }
  if (const char* wanted = loft::os::environment("NEXTGEN_CPU"); wanted != nullptr) {
    const size_t cpu = strtoul(wanted, nullptr, 10);
    if (cpu < CPU_SETSIZE && CPU_ISSET(cpu, &all)) chosen = cpu;
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(chosen, &one);
  sched_setaffinity(0, sizeof(one), &one);
}

// nextgen_malloc() of the listing, for any number of threads and for every function.
void room() {
  alone = true;
  pin();
  state.store(kOn, std::memory_order_release);
  for (Spin spin;;) {
    bool idle = true;
    // Acquire pairs with the release in mailbox(): the box is constructed.
    for (Mailbox* box = newest.load(std::memory_order_acquire); box != nullptr; box = box->older) {
      // Acquire pairs with the release in post(): the request is written.
      if (!box->ready.load(std::memory_order_acquire)) continue;
      idle = false;
      box->block = box->work(box->first, box->second);
      // One writer: a plain sum.
      served.store(served.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      // Release pairs with the acquires in call() and post(): the answer is written, and the
      // request read.
      box->done.store(true, std::memory_order_release);
      box->ready.store(false, std::memory_order_release);
    }
    if (idle) spin.wait();
  }
}

Mailbox* mailbox() {
  // A child of a fork keeps its own.
  if (void* mine = pthread_getspecific(exit_key); mine != nullptr) {
    return own_box = static_cast<Mailbox*>(mine);
  }
  Mailbox* box = newest.load(std::memory_order_acquire);
  for (; box != nullptr; box = box->older) {
    bool owned = false;
    // Acquire pairs with the release in on_exit: the last owner has done with it.
    if (box->owned.compare_exchange_strong(owned, true, std::memory_order_acquire)) break;
  }
  if (box == nullptr) {
    void* memory = loft::metadata::allocate(sizeof(Mailbox));
    if (memory == nullptr) return nullptr;
    box = new (memory) Mailbox;
    box->older = newest.load(std::memory_order_relaxed);
    while (!newest.compare_exchange_weak(box->older, box, std::memory_order_release,
                                         std::memory_order_relaxed)) {
    }
  }
  own_box = box;  // before the call below, which may allocate
  pthread_setspecific(exit_key, box);
  return box;
}

void wait_until_taken(const Mailbox* box) {
  // Acquire pairs with the release in room(): it has read the request before this one.
  for (Spin spin; box->ready.load(std::memory_order_acquire);) spin.wait();
}

void on_exit(void* value) {
  auto* box = static_cast<Mailbox*>(value);
  wait_until_taken(box);
  alone = true;  // before the mailbox goes to the next thread
  own_box = nullptr;
  box->owned.store(false, std::memory_order_release);
}

// The calling thread's mailbox, or nullptr if it has to serve itself.
LOFT_NOINLINE Mailbox* mailbox_or_start() {
  if (state.load(std::memory_order_relaxed) == kNone) thread.start([] { return true; });
  const bool on = state.load(std::memory_order_acquire) == kOn;
  return on && !alone && loft::span::initialise() ? mailbox() : nullptr;
}

LOFT_ALWAYS_INLINE Mailbox* box_of_mine() {
  return LOFT_LIKELY(own_box != nullptr) ? own_box : mailbox_or_start();
}

// The first half of malloc() in the listing.
void post(Mailbox* box, Work work, uintptr_t first, uintptr_t second) {
  wait_until_taken(box);
  box->work = work;
  box->first = first;
  box->second = second;
  box->done.store(false, std::memory_order_relaxed);
  // Release pairs with the acquire in room().
  box->ready.store(true, std::memory_order_release);
}

// And the second.
void* call(Work work, uintptr_t first, uintptr_t second) {
  Mailbox* box = box_of_mine();
  if (LOFT_UNLIKELY(box == nullptr)) return work(first, second);
  post(box, work, first, second);
  // Acquire pairs with the release in room(): the block is there.
  for (Spin spin; !box->done.load(std::memory_order_acquire);) spin.wait();
  void* block = box->block;
  if (LOFT_UNLIKELY(block == nullptr)) errno = ENOMEM;  // the room set its own
  return block;
}

void* allocate_in_room(size_t size) {
  return call([](uintptr_t n, uintptr_t) { return loft::allocate(n); }, size, 0);
}

void* allocate_aligned_in_room(size_t alignment, size_t size) {
  return call([](uintptr_t a, uintptr_t n) { return loft::allocate_aligned(a, n); }, alignment,
              size);
}

// Not waited for: the paper's free is not on the critical path (3.1.2).
void free_in_room(void* p) {
  if (p == nullptr) return;
  Mailbox* box = box_of_mine();
  if (LOFT_UNLIKELY(box == nullptr)) return loft::deallocate(p);
  post(
      box,
      [](uintptr_t object, uintptr_t) -> void* {
        loft::deallocate(reinterpret_cast<void*>(object));
        return nullptr;
      },
      reinterpret_cast<uintptr_t>(p), 0);
}

// --- fork: the child has no room until its first call starts one. The room is no thread of the
// child, and loft's own handlers, which run inside these, wait for the locks that it may hold.

void prepare_fork() {
  if (own_box != nullptr) wait_until_taken(own_box);  // a free that is on its way
}

void in_child() {
  for (Mailbox* box = newest.load(std::memory_order_relaxed); box != nullptr; box = box->older) {
    if (box == own_box) continue;
    // What dead threads had asked for is not done in the child.
    box->ready.store(false, std::memory_order_relaxed);
    box->owned.store(false, std::memory_order_relaxed);
  }
  own_box = nullptr;  // until there is a room
  thread.forget();
}

// After the constructors of loft (101 and 102): these handlers then surround its own.
__attribute__((constructor(103))) void open_the_room() {
  if (pthread_key_create(&exit_key, on_exit) != 0) return;
  pthread_atfork(prepare_fork, nullptr, in_child);
  state.store(kNone, std::memory_order_relaxed);
}

void* invalid_argument() {
  errno = EINVAL;
  return nullptr;
}

void* make(size_t size) {
  void* p = allocate_in_room(size);
  return LOFT_LIKELY(p != nullptr) ? p : loft::new_retry(size);
}
void* make(size_t size, std::align_val_t alignment) {
  void* p = allocate_aligned_in_room(static_cast<size_t>(alignment), size);
  return LOFT_LIKELY(p != nullptr) ? p : loft::new_retry(size, alignment);
}
void* make_nothrow(size_t size) {
  void* p = allocate_in_room(size);
  return LOFT_LIKELY(p != nullptr) ? p : loft::new_retry_nothrow(size);
}
void* make_nothrow(size_t size, std::align_val_t alignment) {
  void* p = allocate_aligned_in_room(static_cast<size_t>(alignment), size);
  return LOFT_LIKELY(p != nullptr) ? p : loft::new_retry_nothrow(size, alignment);
}

}  // namespace

extern "C" {

LOFT_EXPORT void* malloc(size_t size) noexcept { return allocate_in_room(size); }
LOFT_EXPORT void free(void* p) noexcept { free_in_room(p); }
LOFT_EXPORT void cfree(void* p) noexcept { free_in_room(p); }
LOFT_EXPORT void free_sized(void* p, size_t) noexcept { free_in_room(p); }
LOFT_EXPORT void free_aligned_sized(void* p, size_t, size_t) noexcept { free_in_room(p); }

LOFT_EXPORT void* calloc(size_t count, size_t size) noexcept {
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) return loft::os::out_of_memory();
  return call([](uintptr_t n, uintptr_t) { return loft::allocate_zeroed(n); }, bytes, 0);
}

LOFT_EXPORT void* realloc(void* p, size_t size) noexcept {
  if (p == nullptr) return allocate_in_room(size);
  if (size == 0) {
    free_in_room(p);
    return nullptr;
  }
  return call([](uintptr_t object,
                 uintptr_t n) { return loft::reallocate(reinterpret_cast<void*>(object), n); },
              reinterpret_cast<uintptr_t>(p), size);
}

LOFT_EXPORT void* reallocarray(void* p, size_t count, size_t size) noexcept {
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) return loft::os::out_of_memory();
  return realloc(p, bytes);
}

LOFT_EXPORT void* aligned_alloc(size_t alignment, size_t size) noexcept {
  if (!loft::is_power_of_two(alignment)) return invalid_argument();
  return allocate_aligned_in_room(alignment, size);
}

LOFT_EXPORT void* memalign(size_t alignment, size_t size) noexcept {
  if (alignment > SIZE_MAX / 2 + 1) return invalid_argument();
  return allocate_aligned_in_room(std::bit_ceil(alignment), size);
}

LOFT_EXPORT int posix_memalign(void** to, size_t alignment, size_t size) noexcept {
  if (!loft::is_power_of_two(alignment) || alignment % sizeof(void*) != 0) return EINVAL;
  const loft::os::KeepErrno keep;
  void* p = allocate_aligned_in_room(alignment, size);
  if (p == nullptr) return ENOMEM;
  *to = p;
  return 0;
}

LOFT_EXPORT void* valloc(size_t size) noexcept {
  return allocate_aligned_in_room(loft::os::page_size(), size);
}

LOFT_EXPORT void* pvalloc(size_t size) noexcept {
  const size_t page = loft::os::page_size();
  if (size > PTRDIFF_MAX) return loft::os::out_of_memory();
  return allocate_aligned_in_room(page, loft::round_up(size == 0 ? 1 : size, page));
}

LOFT_EXPORT size_t malloc_usable_size(void* p) noexcept { return loft::usable_size(p); }

// Requests that the room has served so far, in all.
LOFT_EXPORT unsigned long loft_nextgen_served() noexcept {
  return served.load(std::memory_order_relaxed);
}

}  // extern "C"

using std::align_val_t;
using std::nothrow_t;

LOFT_EXPORT void* operator new(size_t n) { return make(n); }
LOFT_EXPORT void* operator new[](size_t n) { return make(n); }
LOFT_EXPORT void* operator new(size_t n, align_val_t a) { return make(n, a); }
LOFT_EXPORT void* operator new[](size_t n, align_val_t a) { return make(n, a); }
LOFT_EXPORT void* operator new(size_t n, const nothrow_t&) noexcept { return make_nothrow(n); }
LOFT_EXPORT void* operator new[](size_t n, const nothrow_t&) noexcept { return make_nothrow(n); }
LOFT_EXPORT void* operator new(size_t n, align_val_t a, const nothrow_t&) noexcept {
  return make_nothrow(n, a);
}
LOFT_EXPORT void* operator new[](size_t n, align_val_t a, const nothrow_t&) noexcept {
  return make_nothrow(n, a);
}

#define NEXTGEN_DELETE(...)                                                           \
  LOFT_EXPORT void operator delete(void* p __VA_ARGS__) noexcept { free_in_room(p); } \
  LOFT_EXPORT void operator delete[](void* p __VA_ARGS__) noexcept { free_in_room(p); }

NEXTGEN_DELETE()
NEXTGEN_DELETE(, size_t)
NEXTGEN_DELETE(, align_val_t)
NEXTGEN_DELETE(, size_t, align_val_t)
NEXTGEN_DELETE(, const nothrow_t&)
NEXTGEN_DELETE(, align_val_t, const nothrow_t&)
#undef NEXTGEN_DELETE
