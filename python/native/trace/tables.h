// Tables that grow, for loft-trace: mapped, as an interpreter's heap is not to be theirs. Whatever
// cannot be mapped ends in fail().
#ifndef LOFT_TRACE_TABLES_H_
#define LOFT_TRACE_TABLES_H_

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

namespace trace {

// The trace cannot be read, and why. Never returns; where it throws, all tables are unmapped.
[[noreturn]] void fail(const char* why);

inline void* map_zeros(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) fail("there is not enough memory for this trace");
  return p;
}

// Unmapped at its end.
class Mapping {
 public:
  Mapping(void* address, size_t bytes) : address_(address), bytes_(bytes) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (address_ != nullptr) munmap(address_, bytes_);
  }
  uint8_t* begin() const { return static_cast<uint8_t*>(address_); }
  size_t size() const { return bytes_; }

 private:
  void* address_;
  size_t bytes_;
};

// Of plain structs, or tables, all zero where nothing was written.
template <typename T>
class Table {
 public:
  Table() = default;
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  ~Table() {
    for (T& one : *this) one.~T();
    if (data_ != nullptr) munmap(data_, room_ * sizeof(T));
  }
  size_t size() const { return size_; }
  T& operator[](size_t i) {
#ifdef LOFT_DEBUG
    if (i >= size_) __builtin_trap();
#endif
    return data_[i];
  }
  T& back() { return data_[size_ - 1]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  T& add(const T& value) {
    resize(size_ + 1);
    return back() = value;
  }
  T take() { return data_[--size_]; }
  void resize(size_t size) {
    if (size > room_) {
      size_t room = room_ == 0 ? 4096 / sizeof(T) + 1 : room_;
      while (room < size) room *= 2;
      void* p = data_ == nullptr
                    ? map_zeros(room * sizeof(T))
                    : mremap(data_, room_ * sizeof(T), room * sizeof(T), MREMAP_MAYMOVE);
      if (p == MAP_FAILED) fail("there is not enough memory for this trace");
      data_ = static_cast<T*>(p);
      room_ = room;
    }
    size_ = size;
  }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
  size_t room_ = 0;
};

// From numbers other than 0 to numbers: open addressing, never more than half full.
class Map {
 public:
  Map() { resize(1024); }
  Map(const Map&) = delete;
  Map& operator=(const Map&) = delete;
  ~Map() { munmap(slots_, (mask_ + 1) * sizeof(Slot)); }
  size_t size() const { return used_; }
  uint64_t* find(uint64_t key) {
    for (size_t i = home(key); slots_[i].key != 0; i = (i + 1) & mask_) {
      if (slots_[i].key == key) return &slots_[i].value;
    }
    return nullptr;
  }
  void set(uint64_t key, uint64_t value) {
    if (uint64_t* there = find(key)) {
      *there = value;
      return;
    }
    if (used_ * 2 > mask_) grow();
    put(key, value);
  }
  // Closes the gap, so that no marks of what was removed pile up.
  void remove(uint64_t key) {
    size_t gap = home(key);
    while (slots_[gap].key != key) {
      if (slots_[gap].key == 0) return;
      gap = (gap + 1) & mask_;
    }
    for (size_t i = (gap + 1) & mask_; slots_[i].key != 0; i = (i + 1) & mask_) {
      // What lies behind the gap may fill it, unless its home is between the two.
      if (((i - home(slots_[i].key)) & mask_) >= ((i - gap) & mask_)) {
        slots_[gap] = slots_[i];
        gap = i;
      }
    }
    slots_[gap].key = 0;
    used_--;
  }

 private:
  struct Slot {
    uint64_t key;
    uint64_t value;
  };
  size_t home(uint64_t key) const { return (key * 0x9e3779b97f4a7c15 >> 20) & mask_; }
  void put(uint64_t key, uint64_t value) {
    size_t i = home(key);
    while (slots_[i].key != 0) i = (i + 1) & mask_;
    slots_[i] = {key, value};
    used_++;
  }
  void resize(size_t count) {
    slots_ = static_cast<Slot*>(map_zeros(count * sizeof(Slot)));
    mask_ = count - 1;
    used_ = 0;
  }
  void grow() {
    Slot* old = slots_;
    const size_t count = mask_ + 1;
    resize(count * 4);
    for (size_t i = 0; i < count; i++) {
      if (old[i].key != 0) put(old[i].key, old[i].value);
    }
    munmap(old, count * sizeof(Slot));
  }

  Slot* slots_;
  size_t mask_;
  size_t used_;
};

}  // namespace trace

#endif  // LOFT_TRACE_TABLES_H_
