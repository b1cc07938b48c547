// Residency on Windows: the system is asked about some pages at a time.
#include "os/residency.h"

#include <windows.h>

#include <psapi.h>

#include "base/bits.h"
#include "os/os.h"
#include "os/windows_error.h"

namespace loft::os {

Residency::Residency() = default;
Residency::~Residency() = default;

void Residency::begin(uintptr_t from, uintptr_t to) {
  known_ = from;
  end_ = to;
}

Residency::Bytes Residency::until(uintptr_t limit) {
  const KeepLastError keep;
  constexpr size_t kAtOnce = 64;
  const size_t page = page_size();
  PSAPI_WORKING_SET_EX_INFORMATION pages[kAtOnce];
  Bytes sum;
  limit = least(limit, end_);
  while (known_ < limit) {
    const size_t count = least((limit - known_ + page - 1) / page, kAtOnce);
    for (size_t i = 0; i < count; ++i) {
      pages[i] = {reinterpret_cast<void*>(known_ + i * page), {}};
    }
    const bool told = K32QueryWorkingSetEx(GetCurrentProcess(), pages,
                                           static_cast<DWORD>(count * sizeof(pages[0]))) != 0;
    for (size_t i = 0; i < count; ++i) {
      if (!told || pages[i].VirtualAttributes.Valid != 0) sum.resident += page;
    }
    known_ += count * page;
  }
  return sum;
}

}  // namespace loft::os
