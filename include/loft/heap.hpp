/// @file
/// A heap of one's own (loft/loft.h) as a memory resource, for C++17 and later:
///
///     loft::heap_resource heap;                     // or heap(region, bytes)
///     std::pmr::vector<int> numbers(&heap);
///
/// The heap, and with it every object in it, goes when the resource does. Any thread may use it.
#ifndef LOFT_HEAP_HPP
#define LOFT_HEAP_HPP

#include <cstddef>
#include <memory_resource>
#include <new>

#include "loft/loft.h"

/// What loft offers to C++.
namespace loft {

/// A heap that lives as long as this object.
class heap_resource final : public std::pmr::memory_resource {
 public:
  /// Over ordinary memory. std::bad_alloc where loft_heap_create gives NULL.
  heap_resource() : heap_(made(loft_heap_create())) {}
  /// Over the caller's region. std::bad_alloc where loft_heap_create_over gives NULL.
  heap_resource(void* region, std::size_t bytes)
      : heap_(made(loft_heap_create_over(region, bytes))) {}
  /// Destroys the heap, and every object in it.
  ~heap_resource() override { loft_heap_destroy(heap_); }
  heap_resource(const heap_resource&) = delete;             ///< a heap has one owner
  heap_resource& operator=(const heap_resource&) = delete;  ///< a heap has one owner

  /// For the functions of loft/loft.h.
  loft_heap_t* get() const noexcept { return heap_; }

 private:
  static loft_heap_t* made(loft_heap_t* heap) {
    if (heap == nullptr) throw std::bad_alloc();
    return heap;
  }

  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    void* p = loft_heap_aligned_alloc(heap_, alignment, bytes);
    if (p == nullptr) throw std::bad_alloc();
    return p;
  }
  void do_deallocate(void* p, std::size_t bytes, std::size_t) override {
    loft_heap_free_sized(heap_, p, bytes);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  loft_heap_t* heap_;
};

}  // namespace loft

#endif  // LOFT_HEAP_HPP
