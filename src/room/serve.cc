// The room's side of magazines: fills and empties the slots for which threads call.
#include "base/options.h"
#include "limits/limits.h"
#include "os/os.h"
#include "room/magazines.h"

namespace loft::magazines {

namespace {

// Acquire pairs with the release in take, take_zero or hand_over: what they wrote for the room is
// visible, and no read of it moves before this load.
bool is_rooms(const Slot& slot) { return slot.state.load(memory_order_acquire) == Slot::kRooms; }

// Under the heap's lock. Returns at most kAtATime objects to the heap, to keep the wait short for
// threads that serve themselves. True if there are more.
bool take_back(Heap* heap, SizeClass size_class, Slot& slot) {
  constexpr unsigned kAtATime = 128;
  if (!is_rooms(slot)) return false;
  const unsigned rest = slot.objects - least<unsigned>(slot.objects, kAtATime);
  put_back(heap, size_class, slot, rest);
  if (rest != 0) return true;
  // Release pairs with the acquire in hand_over: the array has been read.
  slot.state.store(Slot::kThreads, memory_order_release);
  return false;
}

// Faults the object's pages in. It may be written to, because it is free.
void touch(void* object, size_t size) {
  auto* const first = static_cast<char*>(object);
  const uintptr_t start = reinterpret_cast<uintptr_t>(object);
  for (uintptr_t at = start; at < start + size; at = round_up(at + 1, os::page_size())) {
    *static_cast<volatile char*>(first + (at - start)) = 0;
  }
}

enum class Care : uint8_t { kNone, kTouch, kClear };

// Under the heap's lock. Prepares about kAtATime bytes, for the reason given at take_back. True if
// there are more.
bool prepare(SizeClass size_class, const Slot& slot, uint16_t& prepared, Care care) {
  constexpr size_t kAtATime = size_t{16} << 10;
  const size_t size = class_size(size_class);
  const size_t some = most<size_t>(kAtATime / size, 1);
  for (size_t left = some; left != 0 && prepared < slot.objects; --left) {
    void* const object = slot.slots[++prepared];
    if (care == Care::kTouch) {
      touch(object, size);
    } else {
      __builtin_memset(object, 0, size);
    }
  }
  return prepared < slot.objects;
}

// Under the heap's lock, for a slot in state kRooms. Without memory, the slot stays so: the thread
// serves itself, and calls again. True if there is more to do.
bool fill_slot(Heap* heap, Request request, Slot& slot, unsigned wanted, uint16_t& prepared,
               Care care) {
  const SizeClass size_class = request.size_class;
  if (slot.objects == 0) {
    LOFT_CHECK(wanted <= slot.capacity);
    const Counter& charged = heap->counters().classes[size_class].charged;
    const size_t before = charged.get();
    const unsigned taken = bins::fill_array(heap, request, slot.slots, wanted);
    if (taken == 0) return false;
    slot.objects = static_cast<uint16_t>(taken);
    const bool fresh = charged.get() != before;
    const bool as_it_is = care == Care::kNone || (care == Care::kTouch && !fresh);
    prepared = static_cast<uint16_t>(as_it_is ? taken : 0);
  }
  if (prepared < slot.objects && prepare(size_class, slot, prepared, care)) return true;
  // Release pairs with the acquire in take or take_zero: the objects are there, and prepared.
  slot.state.store(Slot::kThreads, memory_order_release);
  return false;
}

// Under the heap's lock. Does nothing while memory is tight, as without memory. True if there is
// more to do.
bool fill_slots(Heap* heap, SizeClass c, ClassMagazines& its) {
  if (limits::tight()) return false;
  const Care care = get(options.room_prepare) == kPrepareOff ? Care::kNone : Care::kTouch;
  if (is_rooms(its.ready) &&
      fill_slot(heap, request_of(c, its.asked), its.ready, its.wanted, its.prepared, care)) {
    return true;
  }
  return is_rooms(its.zeros) && fill_slot(heap, request_of(c, its.zeros_asked), its.zeros,
                                          most_zeros(c), its.zeros_prepared, Care::kClear);
}

}  // namespace

Magazines* serve(Heap* room, Magazines* magazines) {
  // Read before the exchange below: after it, the thread may call again and write `next`.
  Magazines* const next = magazines->next;
  // Release pairs with the acquire in call: `next` has been read. Acquire pairs with the release in
  // call: the slots are seen as they were at the call.
  uint64_t calls = magazines->calls.exchange(0, memory_order_acq_rel);
  for (; calls != 0; calls &= calls - 1) {
    const SizeClass c = lowest_bit(calls);
    ClassMagazines& its = magazines->classes[c];
    for (bool more = true; more;) {
      const os::Guard guard(room->lock());
      more = take_back(room, c, its.returned) || fill_slots(room, c, its);
    }
  }
  return next;
}

}  // namespace loft::magazines
