// Intrusive doubly linked list of T. T has members `T* next` and `T* prev`. The list owns nothing.
// A node is in at most one list. The caller holds the lock that guards the list.
#pragma once

#include "base/peek.h"

namespace loft {

template <class T>
class List {
 public:
  bool empty() const { return head_ == nullptr; }
  T* front() const { return head_; }
  // A hint: needs no lock.
  bool seems_empty() const { return peek(head_) == nullptr; }

  void push_front(T* node) {
    node->prev = nullptr;
    node->next = head_;
    if (head_ != nullptr) head_->prev = node;
    head_ = node;
  }

  void remove(T* node) {
    if (node->prev != nullptr) {
      node->prev->next = node->next;
    } else {
      head_ = node->next;
    }
    if (node->next != nullptr) node->next->prev = node->prev;
    node->next = node->prev = nullptr;
  }

 private:
  T* head_ = nullptr;
};

}  // namespace loft
