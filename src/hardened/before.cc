#include "hardened/before.h"

#include "base/atomic.h"
#include "space/metadata.h"

namespace loft::hardened {

namespace {

// A linear search does: few objects are asked for here, each when its tag is found missing. There
// is no lock, which the child of a fork could find taken.
constexpr size_t kMostNoted = kMetadataMaxBlock / sizeof(void*);
constinit Atomic<const void*>* noted = nullptr;
constinit size_t count = 0;

Atomic<const void*>* place_of(const void* p) {
  for (size_t i = 0; i < count; ++i) {
    // Acquire: who does not find an object any more finds its memory as forget_before's caller left
    // it.
    if (noted[i].load(memory_order_acquire) == p) return &noted[i];
  }
  return nullptr;
}

}  // namespace

bool note_before(const void* p) {
  if (noted == nullptr) {
    noted = static_cast<Atomic<const void*>*>(metadata::allocate(kMetadataMaxBlock));
  }
  if (noted == nullptr || count == kMostNoted) return false;
  noted[count++].store(p, memory_order_relaxed);
  return true;
}

bool is_from_before(const void* p) { return place_of(p) != nullptr; }

bool forget_before(const void* p) {
  Atomic<const void*>* const place = place_of(p);
  return place != nullptr &&
         place->compare_exchange_strong(p, nullptr, memory_order_release, memory_order_relaxed);
}

}  // namespace loft::hardened
