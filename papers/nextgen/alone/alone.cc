// NextGen-Malloc by both strategies of its section 3.1: the room has an allocator of its own, which
// nobody else may enter (room_heap.h), behind the same mailboxes.
//
// A thread that has to serve itself (mailbox.h says when) uses loft's own malloc instead. The
// pagemap tells whose an object is: what is loft's is freed by the thread itself. What is the
// room's and freed by such a thread waits in a list, which the room takes as a whole.
#include <atomic>
#include <new>

#include "base/macros.h"
#include "engine/engine.h"
#include "malloc/allocate.h"
#include "nextgen/alone/room_heap.h"
#include "nextgen/mailbox.h"
#include "space/metadata.h"

namespace engine {

namespace {

using nextgen::is_of_room;
using nextgen::Mailbox;

using nextgen::RoomHeap;

// The room's alone. A child of a fork finds it between two requests, and its own room goes on.
// nullptr without memory.
RoomHeap* heap_of_served() {
  Mailbox* const box = nextgen::served_box;
  if (LOFT_UNLIKELY(box->heap == nullptr)) {
    void* const memory = loft::metadata::allocate(sizeof(RoomHeap));
    if (memory != nullptr) box->heap = new (memory) RoomHeap;
  }
  return static_cast<RoomHeap*>(box->heap);
}

// Objects that threads without a mailbox have freed.
struct Stray {
  Stray* next;
};
constinit std::atomic<Stray*> strays{nullptr};

void leave_for_room(void* p) {
  auto* const stray = static_cast<Stray*>(p);
  // Relaxed: the exchange below compares it. Nobody takes a single one, so an address that was
  // there before does no harm.
  stray->next = strays.load(std::memory_order_relaxed);
  // Release pairs with the acquire in take_strays: the link is written, and the object is done
  // with.
  while (!strays.compare_exchange_weak(stray->next, stray, std::memory_order_release,
                                       std::memory_order_relaxed)) {
  }
}

// In the room.
LOFT_NOINLINE void take_strays() {
  // Acquire pairs with the release in leave_for_room.
  Stray* stray = strays.exchange(nullptr, std::memory_order_acquire);
  while (stray != nullptr) {
    Stray* const next = stray->next;
    RoomHeap::release(stray);
    stray = next;
  }
}

// The requests. Each looks for strays first: a load, and no atomic operation while there are none.
// Relaxed: a stray that is missed is taken the next time.
void look_for_strays() {
  if (LOFT_UNLIKELY(strays.load(std::memory_order_relaxed) != nullptr)) take_strays();
}
void* allocate_in_room(uintptr_t bytes, uintptr_t) {
  look_for_strays();
  RoomHeap* const heap = heap_of_served();
  return LOFT_LIKELY(heap != nullptr) ? heap->allocate(bytes) : nullptr;
}
void* allocate_aligned_in_room(uintptr_t alignment, uintptr_t bytes) {
  look_for_strays();
  RoomHeap* const heap = heap_of_served();
  return LOFT_LIKELY(heap != nullptr) ? heap->allocate_aligned(alignment, bytes) : nullptr;
}
void* release_in_room(uintptr_t p, uintptr_t) {
  RoomHeap::release(reinterpret_cast<void*>(p));
  return nullptr;
}

}  // namespace

void* allocate(size_t bytes) {
  Mailbox* const box = nextgen::box_of_mine();
  return LOFT_LIKELY(box != nullptr) ? nextgen::ask(box, allocate_in_room, bytes, 0)
                                     : loft::allocate(bytes);
}

void* allocate_aligned(size_t alignment, size_t bytes) {
  Mailbox* const box = nextgen::box_of_mine();
  return LOFT_LIKELY(box != nullptr) ? nextgen::ask(box, allocate_aligned_in_room, alignment, bytes)
                                     : loft::allocate_aligned(alignment, bytes);
}

void release(void* p) {
  if (LOFT_UNLIKELY(!is_of_room(p))) {
    nextgen::count_unserved();
    return loft::deallocate(p);
  }
  Mailbox* const box = nextgen::box_of_mine();
  if (LOFT_UNLIKELY(box == nullptr)) return leave_for_room(p);
  nextgen::post(box, release_in_room, reinterpret_cast<uintptr_t>(p), 0);
}

size_t usable_size(const void* p) {
  return is_of_room(p) ? nextgen::usable_size_of_room(p) : loft::usable_size(p);
}

size_t zero_bytes(const void* p) { return is_of_room(p) ? nextgen::zero_bytes_of_room(p) : 0; }

// mailbox.cc has handlers of its own: the room stands still.
void prepare_fork() {}
void finish_fork(bool) {}

Counts counts() {
  Counts all;
  all.received = loft_nextgen_served();
  return all;
}

}  // namespace engine
