// The part of the fuzzer of calls that is about heaps of the program's own: over ordinary memory,
// over a region, and over one that cannot be touched.
#pragma once

#include <sys/mman.h>

#include <algorithm>

#include "loft/loft.h"
#include "scene.h"

namespace fuzz {

class UserHeaps {
 public:
  explicit UserHeaps(Scene& scene) : scene_(scene) {}

  void create() {
    Heap& heap = heaps_[scene_.bytes.byte() % kHeaps];
    if (heap.handle != nullptr) return;
    heap = {loft_heap_create(), false, false};
    scene_.refused("heap_create", heap.handle);
  }

  // Each has a part of the region to itself; what of that it is over, the input says.
  void create_over() {
    const unsigned number = scene_.bytes.byte() % kHeaps;
    const bool sealed = scene_.bytes.byte() % 2 != 0;
    const size_t from = scene_.bytes.number(2) % kPart;
    const size_t length = scene_.bytes.number(2) % (kPart - from + 1);
    Heap& heap = heaps_[number];
    if (heap.handle != nullptr) return;
    unsigned char* base = regions() + (number + (sealed ? kHeaps : 0)) * kPart + from;
    errno = 0;
    heap = {loft_heap_create_over(base, length), true, sealed};
    // In 511 bytes there are 256 that can be used, wherever they begin.
    if (heap.handle == nullptr && (length >= 511 || errno != EINVAL)) {
      scene_.refused("heap_create_over", nullptr);
    }
  }

  void allocate() {
    const int number = scene_.bytes.byte() % kHeaps;
    const bool cleared = scene_.bytes.byte() % 2 != 0;
    const size_t alignment = scene_.bytes.byte() % 2 != 0 ? scene_.alignment() : 0;
    const size_t size = scene_.size();
    const Heap& heap = heaps_[number];
    if (heap.handle == nullptr || scene_.full() || (cleared && heap.sealed)) return;
    void* p = cleared          ? loft_heap_calloc(heap.handle, 1, size)
              : alignment == 0 ? loft_heap_malloc(heap.handle, size)
                               : loft_heap_aligned_alloc(heap.handle, alignment, size);
    if (p == nullptr) {
      if (!heap.over_region) scene_.refused("heap_malloc", p);
      return;
    }
    if (cleared) Model::check_zero("heap_calloc", p, size);
    scene_.model.add("heap_malloc", p,
                     Object{.size = size,
                            .usable = loft_heap_usable_size(heap.handle, p),
                            .alignment = cleared ? 1 : alignment,
                            .heap = number,
                            .in_region = heap.over_region,
                            .sealed = heap.sealed});
    check_inside(scene_.model.objects().back());
  }

  void resize() {
    const size_t index = scene_.pick();
    const size_t size = scene_.size();
    if (index == Scene::kNone || scene_.full()) return;
    if (scene_.at(index).heap == kNoHeap || scene_.at(index).sealed) return;
    const Object object = scene_.model.remove("heap_realloc", index);
    loft_heap_t* heap = heaps_[object.heap].handle;
    void* p = loft_heap_realloc(heap, object.at, size);
    const size_t usable = loft_heap_usable_size(heap, p);
    if (scene_.settle("heap_realloc", object, p, size, usable)) {
      check_inside(scene_.model.objects().back());
    }
  }

  void free(const Object& object) { loft_heap_free(heaps_[object.heap].handle, object.at); }

  void check_inside(const Object& object) const {
    const unsigned char* last = object.at + std::max(object.usable, size_t{1}) - 1;
    if (loft_heap_contains(heaps_[object.heap].handle, last) != 1) {
      wrong("%p is outside of its heap", static_cast<const void*>(object.at));
    }
  }

  void destroy() { destroy(scene_.bytes.byte() % kHeaps); }
  void destroy_all() {
    for (int number = 0; number < kHeaps; ++number) destroy(number);
  }

 private:
  static constexpr int kHeaps = 4;
  static constexpr size_t kPart = 64 << 10;

  struct Heap {
    loft_heap_t* handle;
    bool over_region;
    bool sealed;
  };

  // Memory for all of them, and as much again that cannot be touched.
  static unsigned char* regions() {
    static void* const made = [] {
      void* p = mmap(nullptr, 2 * kHeaps * kPart, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (p == MAP_FAILED || mprotect(p, kHeaps * kPart, PROT_READ | PROT_WRITE) != 0) {
        wrong("no memory for regions");
      }
      return p;
    }();
    return static_cast<unsigned char*>(made);
  }

  void destroy(int number) {
    Heap& heap = heaps_[number];
    if (heap.handle == nullptr) return;
    loft_heap_stats_t stats = {};
    stats.struct_size = sizeof(stats);
    loft_heap_stats(heap.handle, &stats);
    const size_t live = scene_.model.remove_heap(number);
    if (stats.live_objects != live) {
      wrong("a heap counts %lu objects of %zu", stats.live_objects, live);
    }
    loft_heap_destroy(heap.handle);
    heap = {};
  }

  Scene& scene_;
  Heap heaps_[kHeaps] = {};
};

}  // namespace fuzz
