#include "heaps/blocks.h"

#include <new>

#include "os/fault.h"
#include "os/os.h"
#include "slab/geometry.h"
#include "space/discards.h"

namespace loft {

namespace {

constexpr bool bits_suffice(size_t row_bytes) {
  for (SizeClass c = 0; c < kRowClasses; ++c) {
    if (objects_in_row(c, row_bytes) > 64) return false;
  }
  return true;
}
static_assert(bits_suffice(kLongRow) && bits_suffice(kShortRow));

}  // namespace

Block* Blocks::block_at(const Extent* extent, uintptr_t at) {
  const uint32_t index = extent->map[(at - extent->base) >> kUnitLog];
  if (index == 0) return nullptr;
  auto* block = metadata::at_index<Block>(index);
  return block->use != Use::kUnused && block->covers(at) ? block : nullptr;
}

void Blocks::name(const Block* block) {
  uint32_t* const map = block->extent->map;
  const size_t first = (block->base - block->extent->base) >> kUnitLog;
  const uint32_t index = metadata::index_of(block);
  if (block->use == Use::kFree ||
      (block->units > kNamedUnits && block->extent->units > kNamedExtent)) {
    map[first] = map[first + block->units - 1] = index;
  } else {
    for (size_t i = 0; i < block->units; ++i) map[first + i] = index;
  }
}

bool Blocks::have_spares(unsigned wanted) {
  if (LOFT_LIKELY(spare_count_ >= wanted)) return true;
  void* memory = metadata::allocate(sizeof(Chunk));
  if (memory == nullptr) return false;
  auto* chunk = new (memory) Chunk{};
  chunk->next = chunks_;
  chunks_ = chunk;
  metadata_bytes_.add(sizeof(Chunk));
  for (size_t i = Chunk::kBlocks; i-- != 0;) discard(&chunk->blocks[i]);
  return true;
}

void Blocks::discard(Block* block) {
  block->use = Use::kUnused;
  block->next = spares_;
  spares_ = block;
  ++spare_count_;
}

// Requires a spare descriptor.
Block* Blocks::describe(Extent* extent, uintptr_t base, size_t units, Use use, bool dirty) {
  Block* block = spares_;
  spares_ = block->next;
  --spare_count_;
  return new (block) Block{base, units, nullptr, nullptr, 0, extent, use, 0, 0, dirty, false};
}

void Blocks::list(Block* block) {
  name(block);
  free_.insert(block);
}

bool Blocks::add(Extent* extent, bool dirty) {
  if (!have_spares(1)) return false;
  list(describe(extent, extent->base, extent->units, Use::kFree, dirty));
  units_ += extent->units;
  return true;
}

Block* Blocks::only_free_block(const Extent* extent) {
  Block* first = block_at(extent, extent->base);
  return first->use == Use::kFree && first->units == extent->units ? first : nullptr;
}

void Blocks::remove(Extent* extent) {
  Block* block = only_free_block(extent);
  unlist(block);
  discard(block);
  units_ -= extent->units;
}

// Cuts [base, base + units) out of a free block, which is in no bin. The remainders on both sides
// stay free. Requires two spare descriptors.
Block* Blocks::cut_out(Block* from, uintptr_t base, size_t units) {
  const uintptr_t end = base + (units << kUnitLog);
  if (base != from->base) {
    list(describe(from->extent, from->base, (base - from->base) >> kUnitLog, Use::kFree,
                  from->dirty));
  }
  if (end != from->end()) {
    list(describe(from->extent, end, (from->end() - end) >> kUnitLog, Use::kFree, from->dirty));
  }
  from->base = base;
  from->units = units;
  return from;
}

Block* Blocks::take_run(size_t units, size_t alignment, bool anywhere) {
  const auto base_in = [&](const Block* run) { return round_up(run->base, alignment); };
  const auto fits = [&](const Block* run) {
    const uintptr_t base = base_in(run);  // wraps beyond the end of the address space
    return base >= run->base && base < run->end() && (run->end() - base) >> kUnitLog >= units;
  };
  if (!have_spares(2)) return nullptr;
  Block* run = free_.find(units);
  if (run != nullptr && !fits(run)) run = free_.find(units + (alignment >> kUnitLog) - 1);
  if (run == nullptr && anywhere) run = free_.find_any(units, fits);
  if (run == nullptr) return nullptr;
  unlist(run);
  return cut_out(run, base_in(run), units);
}

void* Blocks::hand_out(Block* run) {
  if (run == nullptr) return nullptr;
  run->use = Use::kObject;
  name(run);
  account(run->units << kUnitLog, 1);
  return reinterpret_cast<void*>(run->base);
}

Block* Blocks::make_row(SizeClass size_class) {
  const unsigned objects = objects_in_row(size_class, units_ < kManyUnits ? kShortRow : kLongRow);
  Block* row = take_run(units_for(objects * class_size(size_class)), kUnit, false);
  if (row == nullptr) return nullptr;
  row->use = Use::kRow;
  row->size_class = static_cast<uint8_t>(size_class);
  row->objects = static_cast<uint8_t>(objects);
  row->free_bits = ~uint64_t{0} >> (64 - objects);
  name(row);
  rows_[size_class].push_front(row);
  return row;
}

void* Blocks::take_object(SizeClass size_class) {
  Block* row = rows_[size_class].front();
  if (LOFT_UNLIKELY(row == nullptr)) {
    row = make_row(size_class);
    if (row == nullptr) return nullptr;
  } else if (row == empty_[size_class]) {
    empty_[size_class] = nullptr;
  }
  const unsigned index = lowest_bit(row->free_bits);
  row->free_bits &= row->free_bits - 1;
  if (row->free_bits == 0) rows_[size_class].remove(row);
  account(class_size(size_class), 1);
  return reinterpret_cast<void*>(row->base + index * class_size(size_class));
}

namespace {

// A row begins at a multiple of kUnit, so any class whose size is a multiple of the alignment
// serves.
SizeClass row_class(size_t size, size_t alignment) {
  SizeClass c = class_of(most(size, alignment));
  while (class_size(c) % alignment != 0 || !has_rows(c)) ++c;
  return c;
}

}  // namespace

size_t Blocks::good_size(size_t size) {
  if (size <= kTableMax) return class_size(row_class(size, kMinObject));
  return units_for(size) << kUnitLog;
}

void* Blocks::allocate(size_t size, size_t alignment) {
  if (size <= kTableMax && alignment <= kUnit) return take_object(row_class(size, alignment));
  return hand_out(take_run(units_for(size), most(alignment, kUnit), false));
}

void* Blocks::allocate_anywhere(size_t size, size_t alignment) {
  return hand_out(take_run(units_for(size), most(alignment, kUnit), true));
}

bool Blocks::give_up_empty_rows() {
  bool any = false;
  for (SizeClass c = 0; c < kRowClasses; ++c) {
    Block* row = empty_[c];
    if (row == nullptr) continue;
    empty_[c] = nullptr;
    rows_[c].remove(row);
    release(row);
    any = true;
  }
  return any;
}

ObjectAt Blocks::object_at(const Extent* extent, const void* p) {
  const auto at = reinterpret_cast<uintptr_t>(p);
  Block* block = block_at(extent, at);
  if (block == nullptr || block->use == Use::kFree) return {};
  if (block->use == Use::kObject) return {block->base, block->units << kUnitLog, block, 0};
  const size_t size = class_size(block->size_class);
  const auto index = static_cast<unsigned>(
      index_in(product_of(at - block->base, geometry(block->size_class).inverse)));
  return {block->base + index * size, size, block, index};
}

void Blocks::for_each(const Extent* extent, void (*add)(void* context, uintptr_t start),
                      void* context) {
  if (extent->map == nullptr) return add(context, extent->base);
  for (uintptr_t at = extent->base; at < extent->end();) {
    const Block* const block = block_at(extent, at);
    if (block == nullptr) return;  // the extent has just been made, or is about to go
    if (block->use == Use::kObject) add(context, at);
    const unsigned objects = block->use == Use::kRow ? block->objects : 0;
    for (unsigned i = 0; i < objects; ++i) {
      if ((block->free_bits >> i & 1) == 0) add(context, at + i * class_size(block->size_class));
    }
    at = block->end();
  }
}

Block* Blocks::free(const ObjectAt& object) {
  Block* block = object.block;
  account(-object.bytes, size_t{0} - 1);
  if (block->use == Use::kObject) return release(block);
  const SizeClass c = block->size_class;
  if (block->free_bits == 0) rows_[c].push_front(block);
  block->free_bits |= uint64_t{1} << object.index;
  if (LOFT_LIKELY(!block->is_empty_row())) return nullptr;
  // One empty row per class is kept, for a program that alternates allocation and free.
  if (empty_[c] == nullptr) {
    empty_[c] = block;
    return nullptr;
  }
  rows_[c].remove(block);
  return release(block);
}

// Frees a block, which is in no list, and joins it with free neighbours.
Block* Blocks::release(Block* block) {
  const Extent* extent = block->extent;
  block->use = Use::kFree;
  block->dirty = true;
  block->waited = false;
  if (block->base != extent->base) {
    Block* before = block_at(extent, block->base - kUnit);
    if (before->use == Use::kFree) {
      unlist(before);
      block->base = before->base;
      block->units += before->units;
      discard(before);
    }
  }
  if (block->end() != extent->end()) {
    Block* after = block_at(extent, block->end());
    if (after->use == Use::kFree) {
      unlist(after);
      block->units += after->units;
      discard(after);
    }
  }
  list(block);
  return block;
}

bool Blocks::resize(Block* block, size_t size) {
  const size_t units = units_for(size);
  const size_t before = block->units;
  if (units < before) {
    if (!have_spares(1)) return true;
    block->units = units;
    name(block);
    release(describe(block->extent, block->end(), before - units, Use::kObject, true));
  } else if (units > before) {
    if (block->end() == block->extent->end() || !have_spares(2)) return false;
    Block* after = block_at(block->extent, block->end());
    if (after->use != Use::kFree || after->units < units - before) return false;
    unlist(after);
    discard(cut_out(after, after->base, units - before));
    block->units = units;
    name(block);
  }
  account((block->units - before) << kUnitLog, 0);
  return true;
}

bool Blocks::purge_pages(const Extent* extent, bool all, size_t& purged) {
  const size_t page = os::page_size();
  bool some_wait = false;
  for (uintptr_t at = extent->base; at != extent->end();) {
    Block* block = block_at(extent, at);
    at = block->end();
    if (block->use != Use::kFree || !block->dirty) continue;
    const uintptr_t first = round_up(block->base, page);
    const uintptr_t last = round_down(block->end(), page);
    if (first >= last) continue;
    if (!all && !block->waited) {
      block->waited = true;
      some_wait = true;
      continue;
    }
    split_at_ends(first, last - first);
    // Fails where the program has locked its memory, and so wants the pages to stay.
    if (!os::discard(reinterpret_cast<void*>(first), last - first)) continue;
    block->dirty = false;
    purged += last - first;
  }
  return some_wait;
}

void Blocks::clear() {
  while (chunks_ != nullptr) {
    Chunk* chunk = chunks_;
    chunks_ = chunk->next;
    metadata::release(chunk, sizeof(Chunk));
  }
}

void Blocks::check(const Extent* extent) const {
  if (!kDebug) return;
  bool free_before = false;
  for (uintptr_t at = extent->base; at != extent->end();) {
    const Block* block = block_at(extent, at);
    LOFT_CHECK(block != nullptr && block->extent == extent && block->base == at);
    LOFT_CHECK(block->end() <= extent->end() && block->end() > at);
    LOFT_CHECK(block_at(extent, block->end() - kUnit) == block);
    LOFT_CHECK(!free_before || block->use != Use::kFree);
    free_before = block->use == Use::kFree;
    if (block->use == Use::kRow) {
      const SizeClass c = block->size_class;
      LOFT_CHECK(block->units << kUnitLog == block->objects * class_size(c));
      LOFT_CHECK((block->free_bits & ~(~uint64_t{0} >> (64 - block->objects))) == 0);
      LOFT_CHECK(block->is_empty_row() == (block == empty_[c]));
      bool listed = false;
      for (const Block* row = rows_[c].front(); row != nullptr; row = row->next) {
        listed = listed || row == block;
      }
      LOFT_CHECK(listed == (block->free_bits != 0));
    }
    at = block->end();
  }
}

}  // namespace loft
