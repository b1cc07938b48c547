// No paper's allocator: a list for each processor, which keeps what is freed there, whoever
// allocated it, as many thread caches do. Their program shares lines, and the patterns of
// simulate.cc have to show it (machine_test.cc).
#include <array>
#include <cstddef>
#include <new>

#include "engine/engine.h"
#include "loft/loft.h"
#include "simulation/machine.h"

namespace {

struct Free {
  Free* next;
};
struct alignas(64) Heap {
  Free* first = nullptr;
  size_t used = 0;
  std::array<char, 1 << 12> memory;
};
std::array<Heap, 64> heaps;

}  // namespace

void* loft_malloc(size_t) noexcept {
  Heap& mine = heaps[machine::processor()];
  if (Free* const first = mine.first; first != nullptr) {
    mine.first = first->next;
    return first;
  }
  return &mine.memory[16 * mine.used++];
}

void loft_free(void* p) noexcept {
  Heap& mine = heaps[machine::processor()];
  mine.first = new (p) Free{mine.first};
}

engine::Counts engine::counts() { return {}; }
