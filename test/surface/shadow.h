// A shadow of the heap: what a program may rely on, kept beside the allocator and compared with it.
// Every step of `Shadow` calls one function of the surface at random and checks what came back:
// alignment, usable size, zeroes of calloc, contents kept by realloc, no overlap with any live
// object. Every object is filled to its last usable byte with a pattern of its own, which is
// checked when the object is resized or freed: whoever writes into it meanwhile is found.
#pragma once

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <new>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "surface/support.h"

extern "C" {
[[gnu::weak]] void free_sized(void* object, size_t size) noexcept;
[[gnu::weak]] void free_aligned_sized(void* object, size_t alignment, size_t size) noexcept;
}

namespace surface {

// How an object was made, which decides how it may be given back.
enum class Origin { kMalloc, kNew, kAlignedNew };

struct Object {
  unsigned char* at;
  size_t size;       // asked for
  size_t usable;     // filled
  size_t alignment;  // asked for
  uint64_t seed;     // of the pattern
  Origin origin;
};

// ---- Patterns
// --------------------------------------------------------------------------------------

inline uint64_t pattern_word(uint64_t seed, size_t word) {
  uint64_t x = seed + word * 0x9E3779B97F4A7C15u;
  x ^= x >> 29;
  return x * 0xBF58476D1CE4E5B9u;
}

// Ranges of an object that carry the pattern: all of a small one; of a large one the head, the
// tail, and some bytes of every page, so that a test of many steps still ends.
template <class Visit>
void for_each_range(size_t size, Visit visit) {
  constexpr size_t kWhole = 32 << 10;
  constexpr size_t kEdge = 4 << 10;
  constexpr size_t kStep = 4096;
  if (size <= kWhole) {
    visit(size_t{0}, size);
    return;
  }
  visit(size_t{0}, kEdge);
  for (size_t at = 2 * kEdge; at + kEdge + 64 <= size; at += kStep) visit(at, at + 64);
  visit((size - kEdge) & ~size_t{7}, size);
}

// Ranges start at multiples of 8; the last word of one may be cut.
inline void fill(unsigned char* p, size_t size, uint64_t seed) {
  for_each_range(size, [=](size_t from, size_t to) {
    for (size_t at = from; at < to; at += 8) {
      const uint64_t word = pattern_word(seed, at / 8);
      memcpy(p + at, &word, std::min(to - at, size_t{8}));
    }
  });
}

// Checks the pattern that was filled for `filled` bytes as far as the first `kept` bytes go.
// Returns the first wrong byte's offset, or SIZE_MAX.
inline size_t first_difference(const unsigned char* p, size_t filled, size_t kept, uint64_t seed) {
  size_t wrong = SIZE_MAX;
  for_each_range(filled, [&](size_t from, size_t to) {
    to = std::min(to, kept);
    for (size_t at = from; at < to && wrong == SIZE_MAX; at += 8) {
      const uint64_t word = pattern_word(seed, at / 8);
      if (memcmp(p + at, &word, std::min(to - at, size_t{8})) != 0) wrong = at;
    }
  });
  return wrong;
}

// ---- The model
// ---------------------------------------------------------------------------------------

class Shadow {
 public:
  struct Limits {
    size_t live_objects = 2000;
    size_t live_bytes = 96 << 20;
    size_t largest = 16 << 20;
  };

  Shadow(uint64_t seed, Limits limits) : random_(seed), limits_(limits) {}
  ~Shadow() {
    while (!objects_.empty()) give_back(objects_.size() - 1);
  }
  Shadow(const Shadow&) = delete;
  Shadow& operator=(const Shadow&) = delete;

  // One random call. False when something was wrong; error() then says what.
  bool step() {
    const bool full = objects_.size() >= limits_.live_objects || live_bytes_ >= limits_.live_bytes;
    const uint64_t choice = below(100);
    if (objects_.empty() || (!full && choice < 45)) {
      make();
    } else if (choice < 65) {
      resize(below(objects_.size()));
    } else {
      // Newest first, oldest first or at random: stacks, queues and neither.
      const uint64_t order = below(4);
      const size_t last = objects_.size() - 1;
      give_back(order == 0 ? last : order == 1 ? 0 : below(objects_.size()));
    }
    return error_.empty();
  }

  // An object leaves this model for another's; nothing is called.
  bool take_out(Object& object) {
    if (objects_.empty()) return false;
    object = remove(below(objects_.size()));
    return true;
  }
  // One that came from another model. A thread that frees what others made is what loft is about.
  void put_in(const Object& object) { add(object); }

  const std::string& error() const { return error_; }
  size_t live_objects() const { return objects_.size(); }

 private:
  uint64_t below(uint64_t n) { return random_() % n; }

  void fail(const char* call, const std::string& what) {
    if (error_.empty()) error_ = std::string(call) + ": " + what;
  }

  static std::string name(const void* p) {
    char text[32];
    snprintf(text, sizeof(text), "%p", p);
    return text;
  }

  // Mostly small sizes, some at the borders where classes and kinds change.
  size_t random_size() {
    const uint64_t kind = below(1000);
    if (kind < 550) return below(256);
    if (kind < 750) return below(1100);
    if (kind < 900) return below(33'000);
    if (kind < 950)
      return ((size_t{1} << below(17)) + below(33)) - std::min(below(17), uint64_t{1});
    if (kind < 995) return below(300'000);
    return below(limits_.largest);
  }

  size_t random_alignment() {
    const uint64_t kind = below(100);
    if (kind < 70) return size_t{1} << below(9);
    if (kind < 95) return size_t{1} << below(14);
    return size_t{1} << below(21);
  }

  // Registers an object after checking that it overlaps no other.
  void add(const Object& object) {
    const auto from = reinterpret_cast<uintptr_t>(object.at);
    // An object of no bytes still has an address of its own.
    const uintptr_t to = from + std::max(object.usable, size_t{1});
    const auto after = intervals_.lower_bound(from);
    if (after != intervals_.end() && after->first < to) {
      fail("overlap",
           name(object.at) + " reaches into " + name(reinterpret_cast<void*>(after->first)));
    }
    if (after != intervals_.begin() && std::prev(after)->second > from) {
      fail("overlap", name(object.at) + " lies inside another object");
    }
    intervals_[from] = to;
    live_bytes_ += object.usable;
    objects_.push_back(object);
  }

  Object remove(size_t index) {
    const Object object = objects_[index];
    objects_[index] = objects_.back();
    objects_.pop_back();
    intervals_.erase(reinterpret_cast<uintptr_t>(object.at));
    live_bytes_ -= object.usable;
    return object;
  }

  void check_contents(const char* call, const Object& object, const unsigned char* at,
                      size_t kept) {
    const size_t wrong = first_difference(at, object.usable, kept, object.seed);
    if (wrong != SIZE_MAX) {
      fail(call, "byte " + std::to_string(wrong) + " of " + std::to_string(object.size) + " at " +
                     name(at) + " was overwritten or lost");
    }
  }

  // What is true of every new object, whoever made it; fills and registers it.
  void accept(const char* call, void* p, size_t size, size_t alignment, Origin origin) {
    if (p == nullptr) {
      fail(call, "no memory for " + std::to_string(size) + " bytes");
      return;
    }
    const size_t usable = malloc_usable_size(p);
    if (usable < size) {
      fail(call, "usable size " + std::to_string(usable) + " of " + std::to_string(size));
      return;
    }
    if (!aligned(p, std::max(alignment, size_t{16}))) {
      fail(call, name(p) + " is not aligned to " + std::to_string(alignment));
    }
    const Object object = {
        static_cast<unsigned char*>(p), size, usable, alignment, random_(), origin};
    fill(object.at, usable, object.seed);
    add(object);
  }

  void make() {
    const size_t size = random_size();
    switch (below(14)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return accept("malloc", malloc(opaque(size)), size, 1, Origin::kMalloc);
      case 4:
      case 5:
        return make_zeroed(size);
      case 6:
        return accept("realloc(NULL)", realloc(opaque<void*>(nullptr), size), size, 1,
                      Origin::kMalloc);
      case 7:
        return accept("reallocarray", reallocarray(nullptr, size, 3), size * 3, 1, Origin::kMalloc);
      case 8:
        return make_aligned(size);
      case 9: {
        const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
        if (below(2) == 0) return accept("valloc", valloc(size), size, page, Origin::kMalloc);
        return accept("pvalloc", pvalloc(size),
                      std::max((size + page - 1) / page, size_t{1}) * page, page, Origin::kMalloc);
      }
      case 10:
        return accept("new", ::operator new(size), size, 1, Origin::kNew);
      case 11:
        return accept("new nothrow", ::operator new(size, std::nothrow), size, 1, Origin::kNew);
      default: {
        const size_t alignment = random_alignment();
        return accept("aligned new", ::operator new(size, std::align_val_t{alignment}), size,
                      alignment, Origin::kAlignedNew);
      }
    }
  }

  void make_zeroed(size_t size) {
    const size_t count = below(4) == 0 ? 1 + below(16) : 1;
    auto* p = static_cast<unsigned char*>(calloc(opaque(count), size));
    const size_t bytes = count * size;
    if (p != nullptr && bytes != 0 && (p[0] != 0 || memcmp(p, p + 1, bytes - 1) != 0)) {
      fail("calloc", name(p) + " of " + std::to_string(bytes) + " bytes is not all zero");
    }
    accept("calloc", p, bytes, 1, Origin::kMalloc);
  }

  void make_aligned(size_t size) {
    const size_t alignment = random_alignment();
    switch (below(3)) {
      case 0:
        return accept("memalign", memalign(alignment, size), size, alignment, Origin::kMalloc);
      case 1:
        return accept("aligned_alloc", aligned_alloc(alignment, size), size, alignment,
                      Origin::kMalloc);
      default: {
        void* p = nullptr;
        const size_t strict = std::max(alignment, sizeof(void*));
        if (posix_memalign(&p, strict, size) != 0) p = nullptr;
        return accept("posix_memalign", p, size, strict, Origin::kMalloc);
      }
    }
  }

  void resize(size_t index) {
    if (objects_[index].origin != Origin::kMalloc) return give_back(index);
    const Object old = remove(index);
    check_contents("before realloc", old, old.at, old.usable);
    size_t size = random_size();
    if (below(3) == 0) size = old.size + old.size / 2 + 1;  // as a vector grows
    if (below(6) == 0) size = old.size / 2;
    if (size == 0) {
      if (realloc(old.at, opaque(size)) != nullptr) fail("realloc to 0", "gave an object");
      return;
    }
    void* p = below(4) == 0 ? reallocarray(old.at, 1, size) : realloc(old.at, size);
    if (p != nullptr) {
      check_contents("after realloc", old, static_cast<unsigned char*>(p),
                     std::min(old.size, size));
    }
    accept("realloc", p, size, 1, Origin::kMalloc);
  }

  void give_back(size_t index) {
    const Object object = remove(index);
    check_contents("free", object, object.at, object.usable);
    errno = 4711;
    switch (object.origin) {
      case Origin::kMalloc:
        if (free_sized == nullptr || below(2) == 0) {
          free(object.at);
        } else if (object.alignment == 1) {
          free_sized(object.at, object.size);
        } else {
          free_aligned_sized(object.at, object.alignment, object.size);
        }
        break;
      case Origin::kNew:
        if (below(2) == 0) {
          ::operator delete(object.at);
        } else {
          ::operator delete(object.at, object.size);
        }
        break;
      case Origin::kAlignedNew: {
        const auto alignment = std::align_val_t{object.alignment};
        if (below(2) == 0) {
          ::operator delete(object.at, alignment);
        } else {
          ::operator delete(object.at, object.size, alignment);
        }
        break;
      }
    }
    if (errno != 4711) fail("free", "changed errno to " + std::to_string(errno));
  }

  std::mt19937_64 random_;
  Limits limits_;
  std::vector<Object> objects_;
  std::map<uintptr_t, uintptr_t> intervals_;  // start and end of every live object
  size_t live_bytes_ = 0;
  std::string error_;
};

}  // namespace surface
