// Residency where the system is only asked page by page.
#include <sys/mman.h>

#include "base/keep_errno.h"
#include "os/residency.h"

namespace loft::os {

Residency::Residency() = default;
Residency::~Residency() = default;

void Residency::look() {
  const KeepErrno keep;
  next_ = count_ = 0;
  look_at_pages(end_);
}

bool Residency::ask_for_pages(uintptr_t from, size_t bytes, unsigned char* pages) {
  return mincore(reinterpret_cast<void*>(from), bytes, reinterpret_cast<char*>(pages)) == 0;
}

}  // namespace loft::os
