#include "hard/before.h"

#include "os/lock.h"
#include "space/metadata.h"

namespace loft::hard {

namespace {

// A linear search does: few objects are asked for here, each when its tag is found missing.
constexpr size_t kMost = kMetadataMaxBlock / sizeof(void*);
constinit os::Lock lock;  // taken alone
constinit const void** noted = nullptr;
constinit size_t count = 0;

size_t place_of(const void* p) {
  size_t i = 0;
  while (i < count && noted[i] != p) ++i;
  return i;
}

}  // namespace

bool note_before(const void* p) {
  if (noted == nullptr) {
    noted = static_cast<const void**>(metadata::allocate(kMetadataMaxBlock));
  }
  if (noted == nullptr || count == kMost) return false;
  noted[count++] = p;
  return true;
}

bool is_from_before(const void* p) {
  const os::Guard guard(lock);
  return place_of(p) != count;
}

bool forget_before(const void* p) {
  const os::Guard guard(lock);
  const size_t place = place_of(p);
  if (place == count) return false;
  noted[place] = noted[--count];
  return true;
}

}  // namespace loft::hard
