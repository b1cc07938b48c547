#include "files/random.h"

#include <sys/random.h>

#include "base/keep_errno.h"
#include "base/macros.h"
#include "os/os.h"

namespace loft::files {

void random_bytes(void* to, size_t bytes) {
  const KeepErrno keep;
  auto* byte = static_cast<unsigned char*>(to);
  const ssize_t got = getrandom(to, bytes, GRND_NONBLOCK);
  if (LOFT_LIKELY(got == static_cast<ssize_t>(bytes))) return;
  uint64_t mixed = os::entropy() ^ os::now_ns();
  for (size_t i = 0; i < bytes; ++i) {
    mixed = (mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9u + i;
    byte[i] = static_cast<unsigned char>(mixed >> 56);
  }
}

}  // namespace loft::files
