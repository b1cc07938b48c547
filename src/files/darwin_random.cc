#include <sys/random.h>

#include "base/bits.h"
#include "base/keep_errno.h"
#include "files/random.h"

namespace loft::files {

void random_bytes(void* to, size_t bytes) {
  const KeepErrno keep;
  constexpr size_t kMostAtOnce = 256;
  auto* byte = static_cast<unsigned char*>(to);
  for (size_t done = 0; done < bytes; done += kMostAtOnce) {
    getentropy(byte + done, least(bytes - done, kMostAtOnce));
  }
}

}  // namespace loft::files
