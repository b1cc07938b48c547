#include "heaps/as_guest.h"

#include "heaps/user_heap.h"

namespace loft {

namespace user_heaps_guest {

namespace {

void free(const char* call, void* p, Entry entry) {
  UserHeap::free(call, Shard::extent_at(entry), p);
}

void* reallocate(const char* call, void* p, Entry entry, size_t size, size_t alignment) {
  return UserHeap::reallocate(call, Shard::extent_at(entry), p, size, alignment);
}

bool expand(const char* call, void* p, Entry entry, size_t size) {
  return UserHeap::expand(call, Shard::extent_at(entry), p, size);
}

size_t usable_size(const char* call, const void* p, Entry entry) {
  return UserHeap::object_starting_at(call, Shard::extent_at(entry), p).bytes;
}

ObjectRange object_of(const void* p, Entry entry) {
  const ObjectAt object = UserHeap::object_at(Shard::extent_at(entry), p);
  return {reinterpret_cast<void*>(object.start), object.bytes};
}

const char* what_is_wrong(const void* p) {
  return UserHeap::in_a_region(p) ? "pointer into a region, whose objects loft_heap_free takes"
                                  : nullptr;
}

void lock(LockStep step) {
  if (step == LockStep::kAfterHeaps) UserHeap::prepare_fork();
}

void unlock(LockStep step, bool child) {
  if (step == LockStep::kAfterHeaps) UserHeap::finish_fork(child);
}

bool purge_idle(unsigned) { return UserHeap::purge_idle_of_all(); }

}  // namespace

constinit const Guest guest = {
    .lock = lock,
    .unlock = unlock,
    .purge_idle = purge_idle,
    .purge = UserHeap::purge_all,
};

}  // namespace user_heaps_guest

constinit const GuestObjects guest_objects = {
    .free = user_heaps_guest::free,
    .reallocate = user_heaps_guest::reallocate,
    .expand = user_heaps_guest::expand,
    .usable_size = user_heaps_guest::usable_size,
    .object_of = user_heaps_guest::object_of,
    .what_is_wrong = user_heaps_guest::what_is_wrong,
};

}  // namespace loft
