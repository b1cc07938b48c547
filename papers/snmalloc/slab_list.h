// A doubly linked list, for superslabs and medium slabs (2.7, 2.8). Of one thread.
#pragma once

namespace snmalloc {

template <class T>
class SlabList {
 public:
  T* first() const { return first_; }
  bool has_one() const { return first_ != nullptr && first_->next == nullptr; }

  void insert(T* slab) {
    slab->prev = nullptr;
    slab->next = first_;
    if (first_ != nullptr) first_->prev = slab;
    first_ = slab;
  }
  void remove(T* slab) {
    if (slab->next != nullptr) slab->next->prev = slab->prev;
    (slab->prev != nullptr ? slab->prev->next : first_) = slab->next;
  }

 private:
  T* first_ = nullptr;
};

}  // namespace snmalloc
