// What the fuzzer of calls holds the allocator to: every live object, filled to its last usable
// byte with a pattern of its own, overlapping no other, and found as it was left when it is
// resized or freed. The input chooses the calls (calls_fuzz.cc); this judges what comes back.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "bytes.h"
#include "loft/loft.h"
#include "surface/shadow.h"

namespace fuzz {

inline constexpr int kNoHeap = -1;

struct Object {
  unsigned char* at = nullptr;
  size_t size;             // asked for
  size_t usable = 0;       // filled
  size_t alignment = 1;    // asked for
  uint64_t seed = 0;       // of the pattern
  int heap = kNoHeap;      // which of the program's own heaps it is in
  bool in_region = false;  // loft_free must not see it
  bool sealed = false;     // in memory that cannot be touched
};

class Model {
 public:
  const std::vector<Object>& objects() const { return objects_; }
  size_t bytes() const { return bytes_; }

  // What is true of every new object; `object` says all but what it is to find out.
  void add(const char* call, void* p, Object object) {
    object.at = static_cast<unsigned char*>(p);
    object.usable = object.in_region ? object.usable : loft_malloc_usable_size(p);
    object.seed = ++seeds_;
    if (object.usable < object.size || object.usable > object.size * 2 + (4u << 20)) {
      wrong("%s: %zu usable bytes of %zu", call, object.usable, object.size);
    }
    const auto from = reinterpret_cast<uintptr_t>(p);
    if (from % std::max(object.alignment, size_t{16}) != 0) {
      wrong("%s: %p is not aligned to %zu", call, p, object.alignment);
    }
    if (!object.in_region) {
      check_found(call, object, object.usable == 0 ? 0 : object.usable - 1);
    }
    const uintptr_t to = from + std::max(object.usable, size_t{1});
    const auto next = intervals_.lower_bound(from);
    if ((next != intervals_.end() && next->first < to) ||
        (next != intervals_.begin() && std::prev(next)->second > from)) {
      wrong("%s: %p of %zu bytes overlaps another object", call, p, object.size);
    }
    intervals_[from] = to;
    if (!object.sealed) surface::fill(object.at, object.usable, object.seed);
    bytes_ += object.usable;
    objects_.push_back(object);
  }

  // An address inside leads to the object.
  static void check_found(const char* call, const Object& object, size_t offset) {
    const unsigned char* inside = object.at + offset;
    if (loft_object_start(inside) != object.at || loft_object_size(inside) != object.usable ||
        loft_malloc_usable_size(object.at) != object.usable) {
      wrong("%s: %p is not found from %p", call, static_cast<const void*>(object.at),
            static_cast<const void*>(inside));
    }
  }

  // Of the object's first `kept` bytes, now at `at`.
  static void check(const char* call, const Object& object, const void* at, size_t kept) {
    if (object.sealed) return;
    const size_t byte = surface::first_difference(static_cast<const unsigned char*>(at),
                                                  object.usable, kept, object.seed);
    if (byte != SIZE_MAX) {
      wrong("%s: byte %zu of %zu at %p was overwritten or lost", call, byte, object.size, at);
    }
  }

  static void check_zero(const char* call, const void* p, size_t size) {
    const auto* at = static_cast<const unsigned char*>(p);
    if (size != 0 && (at[0] != 0 || memcmp(at, at + 1, size - 1) != 0)) {
      wrong("%s: %p of %zu bytes is not all zero", call, p, size);
    }
  }

  // The object is about to be resized or freed.
  Object remove(const char* call, size_t index) {
    const Object object = objects_[index];
    check(call, object, object.at, object.usable);
    objects_[index] = objects_.back();
    objects_.pop_back();
    intervals_.erase(reinterpret_cast<uintptr_t>(object.at));
    bytes_ -= object.usable;
    return object;
  }

  // It stays as it is after all.
  void put_back(const Object& object) {
    check("a failed call", object, object.at, object.usable);
    const auto from = reinterpret_cast<uintptr_t>(object.at);
    intervals_[from] = from + std::max(object.usable, size_t{1});
    bytes_ += object.usable;
    objects_.push_back(object);
  }

  void check_all(const char* call) const {
    for (const Object& object : objects_) check(call, object, object.at, object.usable);
  }

  // The heap is about to be destroyed with them. Returns how many there were.
  size_t remove_heap(int heap) {
    const size_t before = objects_.size();
    for (size_t i = objects_.size(); i-- != 0;) {
      if (objects_[i].heap == heap) remove("destroy", i);
    }
    return before - objects_.size();
  }

 private:
  std::vector<Object> objects_;
  std::map<uintptr_t, uintptr_t> intervals_;  // start and end
  size_t bytes_ = 0;
  uint64_t seeds_ = 0;
};

}  // namespace fuzz
