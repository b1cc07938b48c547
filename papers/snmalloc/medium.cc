#include "snmalloc/medium.h"

#include <utility>

#include "snmalloc/large.h"
#include "snmalloc/parameters.h"

namespace snmalloc {

void* MediumHeap::allocate(unsigned size_class, SwapCounts& counts) {
  SlabList<MediumSlab>& list = list_of(size_class);
  MediumSlab* slab = list.first();
  if (slab == nullptr) {
    slab = open_slab(size_class, counts);
    if (slab == nullptr) return nullptr;
  }
  if (slab == empty_) empty_ = nullptr;
  const size_t index = slab->stack[slab->head++];
  if (--slab->free == 0) list.remove(slab);
  // The first ends with the chunk.
  const uintptr_t end = reinterpret_cast<uintptr_t>(slab) + kChunk;
  return reinterpret_cast<void*>(end - (index + 1) * size_of_class(size_class));
}

void MediumHeap::take_back(uintptr_t object, SwapCounts& counts) {
  MediumSlab* const slab = slab_of(object);
  SlabList<MediumSlab>& list = list_of(slab->size_class);
  const size_t size = size_of_class(slab->size_class);
  const uintptr_t end = reinterpret_cast<uintptr_t>(slab) + kChunk;
  slab->stack[--slab->head] = static_cast<uint16_t>((end - object) / size - 1);
  if (++slab->free == 1) list.insert(slab);
  if (slab->free != MediumSlab::count(size)) return;
  // Where blocks go back to the system, the slab that became empty last stays: else a program at
  // the border pays a system call each time.
  MediumSlab* const out = parameters.decommits ? std::exchange(empty_, slab) : slab;
  if (out == nullptr) return;
  list_of(out->size_class).remove(out);
  release_block(reinterpret_cast<uintptr_t>(out), 0, counts);
}

MediumSlab* MediumHeap::open_slab(unsigned size_class, SwapCounts& counts) {
  const Block block = acquire_block(0, counts);
  if (block.base == 0) return nullptr;
  auto* const slab = slab_of(block.base);
  slab->header.owner = owner_;
  slab->header.kind = ChunkKind::medium();
  slab->free = static_cast<uint16_t>(MediumSlab::count(size_of_class(size_class)));
  slab->head = 0;
  slab->size_class = static_cast<uint8_t>(size_class);
  for (uint16_t index = 0; index < slab->free; ++index) slab->stack[index] = index;
  list_of(size_class).insert(slab);
  set_kind(block.base, ChunkKind::medium());
  return slab;
}

}  // namespace snmalloc
