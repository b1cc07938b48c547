#include "space/pagemap.h"

#include "os/os.h"

namespace loft {

constinit Pagemap pagemap;

void Pagemap::forget(uintptr_t from, uintptr_t end) const {
  const size_t page = os::page_size();
  const uintptr_t first = round_up(reinterpret_cast<uintptr_t>(&at(from)), page);
  const uintptr_t last = round_down(reinterpret_cast<uintptr_t>(&at(end)), page);
  if (first < last) {
    os::advise(reinterpret_cast<void*>(first), last - first, os::Advice::kAllZero);
  }
}

}  // namespace loft
