#include "hardened/secrets.h"

#include "base/bits.h"
#include "base/sealed.h"
#include "hardened/tag.h"
#include "os/os.h"
#include "sampling/mark.h"

namespace loft::hardened {

LOFT_SEALED constinit Secrets secrets{};

bool make_secrets() {
  Secrets made{};
  os::random_bytes(&made, sizeof made);
  made.offset <<= kTagShift;
  made.value = (made.value | 1) << kTagShift;
  const uint64_t code = made.code | 1;
  made.code = code << kTagShift;
  // Newton's method: each step doubles the low bits that are right, of which an odd number's own
  // has three.
  uint64_t inverse = code;
  for (int i = 0; i < 5; ++i) inverse *= 2 - code * inverse;
  made.inverse = inverse;
  made.free = kFree * made.code;
  return write_sealed(&secrets, &made, sizeof made);
}

uint64_t seed() {
  uint64_t bytes = 0;
  os::random_bytes(&bytes, sizeof bytes);
  return bytes;
}

}  // namespace loft::hardened
