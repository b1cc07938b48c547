// The room's side of magazines: it fills and empties what threads call for.
#include "base/options.h"
#include "os/os.h"
#include "room/magazines.h"
#include "space/limits.h"

namespace loft::magazines {

namespace {

// Acquire pairs with the release of take, take_zero or hand_over: all that they wrote for the room
// is there, and is not to be read before.
bool is_rooms(const Slot& slot) { return slot.state.load(memory_order_acquire) == Slot::kRooms; }

// Under the heap's lock, for so many objects at a time: what threads that serve themselves wait for
// stays short. True if there are more.
bool take_back(Heap* heap, SizeClass size_class, Slot& slot) {
  constexpr unsigned kAtATime = 128;
  if (!is_rooms(slot)) return false;
  const unsigned rest = slot.objects - least<unsigned>(slot.objects, kAtATime);
  put_back(heap, size_class, slot, rest);
  if (rest != 0) return true;
  slot.state.store(Slot::kThreads, memory_order_release);
  return false;
}

// Sees to it that the object's pages have memory. Its first bytes are anybody's: it is free.
void touch(void* object, size_t size) {
  auto* const first = static_cast<char*>(object);
  const uintptr_t start = reinterpret_cast<uintptr_t>(object);
  for (uintptr_t at = start; at < start + size; at = round_up(at + 1, os::page_size())) {
    *static_cast<volatile char*>(first + (at - start)) = 0;
  }
}

enum class Care : uint8_t { kNone, kTouch, kClear };

// Under the heap's lock, for so many bytes at a time, as in take_back. True if there are more.
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

// Under the heap's lock, for a slot that is the room's. Where there is no memory, it stays that:
// the thread serves itself, and calls again. True if there is more to do.
bool fill_slot(Heap* heap, Request request, Slot& slot, unsigned wanted, uint16_t& prepared,
               Care care) {
  const SizeClass size_class = request.size_class;
  if (slot.objects == 0) {
    LOFT_CHECK(wanted <= slot.capacity);
    const Counter& charged = heap->counters().classes[size_class].charged;
    const unsigned long before = charged.get();
    const unsigned taken = bins::fill_array(heap, request, slot.slots, wanted);
    if (taken == 0) return false;
    slot.objects = static_cast<uint16_t>(taken);
    const bool fresh = charged.get() != before;
    const bool as_it_is = care == Care::kNone || (care == Care::kTouch && !fresh);
    prepared = static_cast<uint16_t>(as_it_is ? taken : 0);
  }
  if (prepared < slot.objects && prepare(size_class, slot, prepared, care)) return true;
  slot.state.store(Slot::kThreads, memory_order_release);
  return false;
}

// Under the heap's lock. Where there is little memory, as where there is none. True if there is
// more to do.
bool fill_slots(Heap* heap, SizeClass c, ClassMagazines& its) {
  if (limits::tight()) return false;
  const Care care = get(options.keeper_prepare) == kPrepareOff ? Care::kNone : Care::kTouch;
  if (is_rooms(its.ready) &&
      fill_slot(heap, {c, its.asked}, its.ready, its.wanted, its.prepared, care)) {
    return true;
  }
  return is_rooms(its.zeros) && fill_slot(heap, {c, its.zeros_asked}, its.zeros, most_zeros(c),
                                          its.zeros_prepared, Care::kClear);
}

}  // namespace

Magazines* serve(Heap* room, Magazines* magazines) {
  // Before the exchange below, after which the thread may call anew and write it.
  Magazines* const next = magazines->next;
  // Release pairs with the acquire in call: `next` is read. Acquire, with its release.
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
