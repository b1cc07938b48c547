#include "snmalloc/small.h"

#include "snmalloc/large.h"
#include "snmalloc/parameters.h"

namespace snmalloc {

// The paper does not say in which order slabs are in the list (2.3). Here the slab that got a free
// object last is used first.
void SmallHeap::insert_first(SlabMeta& meta, uintptr_t object) {
  uintptr_t& first = lists_[meta.class_or_next];
  const uintptr_t node = object + Links::kNode;
  meta.link = offset_of(object);
  prev_of(node) = kEnd;
  next_of(node) = first;
  if (first != kEnd) prev_of(first) = node;
  first = node;
}

void SmallHeap::remove_first(unsigned size_class, uintptr_t node) {
  const uintptr_t next = next_of(node);
  lists_[size_class] = next;
  if (next != kEnd) prev_of(next) = kEnd;
}

void SmallHeap::remove(const SlabMeta& meta, uintptr_t slab) {
  const uintptr_t node = slab + meta.link + Links::kNode;
  const uintptr_t prev = prev_of(node);
  if (prev == kEnd) return remove_first(meta.class_or_next, node);
  const uintptr_t next = next_of(node);
  next_of(prev) = next;
  if (next != kEnd) prev_of(next) = prev;
}

uintptr_t SmallHeap::open_slab(unsigned size_class, SwapCounts& counts) {
  Superslab* superslab = superslabs_.first();
  if (superslab == nullptr) {
    superslab = open_superslab(counts);
    if (superslab == nullptr) return 0;
  }
  // The short slab first: its page is in use by the meta-data.
  const bool is_short = superslab->used % 2 == 0;
  const unsigned index = is_short ? 0 : superslab->head;
  SlabMeta& meta = superslab->meta[index];
  if (!is_short) superslab->head = meta.class_or_next;
  superslab->used = static_cast<uint16_t>(superslab->used + (is_short ? 1 : 2));
  if (superslab->used == Superslab::kAllUsed) superslabs_.remove(superslab);

  const uintptr_t slab = reinterpret_cast<uintptr_t>(superslab) + index * kSlab;
  const size_t size = size_of_class(size_class);
  meta.head = static_cast<Offset>(first_offset(size, is_short) | kBump);
  meta.used = 0;
  meta.class_or_next = static_cast<uint16_t>(size_class);
  insert_first(meta, slab + kSlab - size);
  return lists_[size_class];
}

// No object of it is in use. The caller has not touched its list, if it is in one.
void SmallHeap::close_slab(uintptr_t slab, SlabMeta& meta, SwapCounts& counts) {
  if (meta.head != kFull) remove(meta, slab);
  Superslab* const superslab = superslab_of(slab);
  if (superslab->used == Superslab::kAllUsed) superslabs_.insert(superslab);
  const auto index = static_cast<uint16_t>(slab % kChunk >> kSlabLog);
  if (index != 0) {
    meta.class_or_next = superslab->head;
    superslab->head = index;
  }
  superslab->used = static_cast<uint16_t>(superslab->used - (index == 0 ? 1 : 2));
  // Where blocks go back to the system, the last one with a free slab stays: else a program at the
  // border pays a system call each time.
  if (superslab->used != 0 || (parameters.decommits && superslabs_.has_one())) return;
  superslabs_.remove(superslab);
  release_block(chunk_of(slab), 0, counts);
}

Superslab* SmallHeap::open_superslab(SwapCounts& counts) {
  const Block block = acquire_block(0, counts);
  if (block.base == 0) return nullptr;
  auto* const superslab = superslab_of(block.base);
  superslab->header.owner = owner_;
  superslab->header.kind = ChunkKind::super();
  superslab->used = 0;
  superslab->head = 1;
  for (unsigned slab = 0; slab < kSlabs; ++slab) {
    superslab->meta[slab] = {0, 0, 0, static_cast<uint16_t>(slab + 1)};
  }
  superslab->meta[kSlabs - 1].class_or_next = 0;
  superslabs_.insert(superslab);
  set_kind(block.base, ChunkKind::super());
  return superslab;
}

}  // namespace snmalloc
