/// @file
/// loft's malloc as an allocator for containers, for C++11 and later:
///
///     std::vector<int, loft::allocator<int>> numbers;
///
/// It is for programs that have another malloc, or that want to name loft's; where loft is the
/// program's malloc, std::allocator does the same. It has no state: all are equal, also of other
/// types, and what one has allocated any other may deallocate. Over-aligned types are aligned as
/// they ask. deallocate passes the size on, which the hardened modes check (loft_free_sized). Any
/// thread may use it.
///
/// For a heap of one's own, see loft/heap.hpp.
#ifndef LOFT_ALLOCATOR_HPP
#define LOFT_ALLOCATOR_HPP

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>

#include "loft/loft.h"

/// What loft offers to C++.
namespace loft {

/// Meets the requirements of Allocator.
template <class T>
class allocator {
 public:
  using value_type = T;                                           ///< of what is allocated
  using size_type = std::size_t;                                  ///< a number of these
  using difference_type = std::ptrdiff_t;                         ///< of two pointers
  using propagate_on_container_move_assignment = std::true_type;  ///< nothing to keep apart
  using is_always_equal = std::true_type;                         ///< it has no state
  /// For containers before C++11's std::allocator_traits.
  template <class Other>
  struct rebind {
    using other = allocator<Other>;  ///< of another type
  };

  allocator() noexcept = default;
  /// From that of another type.
  template <class Other>
  allocator(const allocator<Other>&) noexcept {}  // NOLINT(google-explicit-constructor)

  /// Room for `count` elements. std::bad_array_new_length if that is more than any array can be,
  /// otherwise std::bad_alloc without memory.
  T* allocate(std::size_t count) { return static_cast<T*>(allocate_bytes(bytes_of(count))); }

  /// Gives back what allocate returned for that count. Of allocate_at_least, the count is the one
  /// that was asked for, the one that was returned, or any in between.
  void deallocate(T* p, std::size_t count) noexcept {
    if (is_over_aligned()) return loft_free_aligned_sized(p, alignof(T), count * sizeof(T));
    loft_free_sized(p, count * sizeof(T));
  }

  /// For C++23's std::allocator_traits, and for anybody else: room for at least `count` elements,
  /// and for how many. The rest would be lost to rounding otherwise.
#if defined(__cpp_lib_allocate_at_least)
  using at_least = std::allocation_result<T*, std::size_t>;
#else
  struct at_least {
    T* ptr;             ///< as of allocate
    std::size_t count;  ///< at least as many as were asked for
  };
#endif
  /// As allocate.
  at_least allocate_at_least(std::size_t count) {
    // All of it is asked for, not just what elements fill: whatever number between the two
    // deallocate is given, its good size is this one.
    const std::size_t good = loft_aligned_good_size(alignof(T), bytes_of(count));
    return {static_cast<T*>(allocate_bytes(good)), good / sizeof(T)};
  }

 private:
  // Every object of loft's has this alignment.
  static constexpr bool is_over_aligned() { return alignof(T) > 16; }

  static std::size_t bytes_of(std::size_t count) {
    if (count >
        static_cast<std::size_t>((std::numeric_limits<std::ptrdiff_t>::max)()) / sizeof(T)) {
      refuse_length();
    }
    return count * sizeof(T);
  }

  static void* allocate_bytes(std::size_t bytes) {
    void* const p = is_over_aligned() ? loft_aligned_alloc(alignof(T), bytes) : loft_malloc(bytes);
    if (p == nullptr) refuse();
    return p;
  }

#if defined(__cpp_exceptions) || defined(__EXCEPTIONS)
  [[noreturn]] static void refuse() { throw std::bad_alloc(); }
  [[noreturn]] static void refuse_length() { throw std::bad_array_new_length(); }
#else
  [[noreturn]] static void refuse() { __builtin_trap(); }
  [[noreturn]] static void refuse_length() { __builtin_trap(); }
#endif
};

/// Always: what one has allocated the other may deallocate.
template <class T, class Other>
bool operator==(const allocator<T>&, const allocator<Other>&) noexcept {
  return true;
}
/// Never.
template <class T, class Other>
bool operator!=(const allocator<T>&, const allocator<Other>&) noexcept {
  return false;
}

}  // namespace loft

#endif  // LOFT_ALLOCATOR_HPP
