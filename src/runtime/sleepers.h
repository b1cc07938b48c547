// What threads hold in their caches while they sleep. Nobody else can empty these.
#pragma once

#include <cstddef>

namespace loft::idle {

// What all threads except the caller hold in their caches. Only the thread itself can reach it.
struct Unreached {
  size_t threads;
  size_t bytes;  // about
};
Unreached unreached();

// The calling thread is about to wait. Empties its caches and rests its heap.
void begin_wait();

}  // namespace loft::idle
