// Which heap a thread has. A thread's first call takes one from the pool, its end returns it.
#pragma once

#include "engine/spin_lock.h"
#include "pages/heap.h"

namespace engine::pages {

struct Mine {
  Heap* heap;
  bool ended;  // the thread's end has run, or will not be seen
};
extern LOFT_HIDDEN __thread Mine mine LOFT_TLS;

// Gives the thread a heap. nullptr without memory, and after the thread's end.
Heap* attach();

inline Heap* my_heap() { return LOFT_LIKELY(mine.heap != nullptr) ? mine.heap : attach(); }

// A heap for one call, for a thread that has ended.
class Borrowed {
 public:
  Borrowed();
  ~Borrowed();
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  Heap* heap() const { return heap_; }

 private:
  Heap* heap_;
};

// All heaps there ever were, from one to the next.
Heap* first_heap();

// Around a fork. In the child, every heap but that of the calling thread is pooled.
void lock_pool();
void unlock_pool();
void pool_all_but(const Heap* mine);

const SpinLock& the_pool_lock();  // for its counts

}  // namespace engine::pages
