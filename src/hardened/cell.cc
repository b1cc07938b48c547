#include "hardened/cell.h"

#include "base/bits.h"
#include "hardened/before.h"
#include "os/fault.h"
#include "slab/apart.h"
#include "slab/slab.h"
#include "space/pagemap.h"

namespace loft::hardened {

bool is_zero(const void* from, size_t bytes) {
  const auto* word = static_cast<const uint64_t*>(from);
  const uint64_t* const end = word + bytes / sizeof(uint64_t);
  for (; end - word >= 4; word += 4) {
    if (LOFT_UNLIKELY((word[0] | word[1] | word[2] | word[3]) != 0)) return false;
  }
  for (; word != end; ++word) {
    if (LOFT_UNLIKELY(*word != 0)) return false;
  }
  return true;
}

namespace {

[[noreturn]] LOFT_COLD void report(const char* what, const void* p) {
  slab::report_misuse(what, p, slab::at(pagemap.of(p)));
}

[[noreturn]] LOFT_COLD void report_for(const char* call, const char* what, const void* p) {
  const Text line = Text() << call << ": " << what;
  report(line.data(), p);
}

}  // namespace

LOFT_COLD void report_written(const void* p) {
  report("write after free: the contents changed of", p);
}

LOFT_COLD void report_damage(const char* call, const void* p) {
  report_for(call, "a write beyond the object has damaged what lies behind", p);
}

void check_unwritten(const void* p, size_t bytes) {
  const uint64_t left = load_tag(tag_at(p, bytes));
  if (LOFT_UNLIKELY(!is_zero(p, bytes - kTagBytes) ||
                    (left != 0 && left != free_tag_of(reinterpret_cast<uintptr_t>(p))))) {
    report_written(p);
  }
}

LOFT_COLD void report_none(const char* call, const void* p, size_t bytes) {
  const uint64_t tag = load_tag(tag_at(p, bytes));
  const bool freed = tag == free_tag_of(reinterpret_cast<uintptr_t>(p)) ||
                     (tag == 0 && is_zero(p, bytes - kTagBytes));
  if (!freed) report_damage(call, p);
  if (call[0] == 'f') report("double free of", p);
  const Text line = Text() << call << " of a freed object";
  report(line.data(), p);
}

namespace {

// Of an object without a tag nothing is known. Looked at again, as it may be freed meanwhile.
bool is_known_before(const void* p, size_t bytes) {
  const uint64_t key = key_of(p);
  const uint64_t step = key_step(bytes);
  return LOFT_LIKELY(is_tagged_before(p, key, step)) ||
         is_from_before(static_cast<const char*>(p) - bytes) || is_tagged_before(p, key, step);
}

// As is_tagged_before, in front of the first cell of a slab: the last cell of another slab ends
// there, its slack, or memory that waits for a slab. All of these stay mapped, and of one class.
// What else lies there nobody knows.
bool seems_whole_in_front(const void* p) {
  const auto at = reinterpret_cast<uintptr_t>(p);
  const void* const in_front = static_cast<const char*>(p) - 1;
  if (!pagemap.contains(in_front)) return true;
  const Entry entry = pagemap.acquire(in_front);
  const SizeClass c = slab::apart::class_at(entry);
  if (c == kSizeClasses || class_size(c) < kLeastPlace) return true;
  const Geometry& shape = geometry(c);
  const uintptr_t base = at - (size_t{shape.granules} << kGranuleLog);
  const uintptr_t last = base + size_t{shape.objects - 1u} * shape.size;
  if (last + shape.size == at) {
    return is_tagged_before(p, key_of(p), key_step(shape.size)) ||
           is_from_before(reinterpret_cast<const void*>(last));
  }
  // Of slabs from before nobody knows what their memory held.
  if (entry.is_slab() && peek(slab::at(entry)->sealed) != kSealedBehind) return true;
  return peek(static_cast<const uint64_t*>(p)[-1]) == 0;
}

// Looked at again: a slab may have come or gone meanwhile, or an object from before.
bool is_whole_in_front(const void* p) {
  return LOFT_LIKELY(seems_whole_in_front(p)) || seems_whole_in_front(p);
}

}  // namespace

void take_back(const char* call, void* p, size_t bytes, Marks marks, bool first) {
  const uint64_t key = key_of(p);
  if (LOFT_UNLIKELY(!is_fence_whole(tag_at(p, bytes), marks.slack, fence_for(key)))) {
    report_damage(call, p);
  }
  if (LOFT_UNLIKELY(!(first ? is_whole_in_front(p) : is_known_before(p, bytes)))) {
    report_for(call,
               "a write before the object, or beyond the one before it, has damaged what lies "
               "between them",
               p);
  }
  clear_cell(p, bytes, key);
}

void resize(const char* call, void* p, size_t bytes, size_t asked, Marks before) {
  const uint64_t key = key_of(p);
  const auto slack = static_cast<uint32_t>(bytes - kTagBytes - asked);
  unsigned char* const end = tag_at(p, bytes);
  if (LOFT_UNLIKELY(!is_fence_whole(end, before.slack, fence_for(key)))) {
    report_damage(call, p);
  }
  store_tag(end, 0);
  compiler_fence();
  // What the object gains, and what it gives up, reads as zero.
  clear_fence(end, before.slack);
  if (slack > before.slack) __builtin_memset(end - slack, 0, slack - before.slack);
  raise_fence(end, slack, fence_for(key));
  compiler_fence();
  store_tag(end, tag_for(key, note_of({slack, before.maker, before.sampled})));
}

}  // namespace loft::hardened
