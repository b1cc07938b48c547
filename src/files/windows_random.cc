#include <windows.h>

#include "base/macros.h"
#include "files/random.h"
#include "os/os.h"

extern "C" __declspec(dllimport) BOOLEAN NTAPI SystemFunction036(PVOID bytes, ULONG count);

namespace loft::files {

void random_bytes(void* to, size_t bytes) {
  const DWORD saved = GetLastError();
  if (LOFT_UNLIKELY(SystemFunction036(to, static_cast<ULONG>(bytes)) == 0)) {
    uint64_t mixed = os::entropy() ^ os::now_ns();
    auto* byte = static_cast<unsigned char*>(to);
    for (size_t i = 0; i < bytes; ++i) {
      mixed = (mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9u + i;
      byte[i] = static_cast<unsigned char>(mixed >> 56);
    }
  }
  SetLastError(saved);
}

}  // namespace loft::files
