#include "hard/place.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "hard/before.h"
#include "os/fault.h"
#include "slab/slab.h"
#include "space/pagemap.h"

namespace loft::hard {

namespace {

void* tag_at(const void* p, size_t bytes) {
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(p) + bytes - kTagBytes);
}

}  // namespace

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

// As memset, whose call costs more than the few stores of a short place.
void clear(void* from, size_t bytes) {
  if (LOFT_UNLIKELY(bytes > 256)) {
    __builtin_memset(from, 0, bytes);
    return;
  }
  auto* word = static_cast<uint64_t*>(from);
  for (const uint64_t* const end = word + bytes / sizeof(uint64_t); word != end; ++word) {
    *word = 0;
    LOFT_FORGET(word);  // or the compiler makes the call of it
  }
}

[[noreturn]] LOFT_COLD void report(const char* what, const void* p) {
  slab::report_misuse(what, p, slab::at(pagemap.of(p)));
}

[[noreturn]] LOFT_COLD void report_for(const char* call, const char* what, const void* p) {
  const Text line = Text() << call << ": " << what;
  report(line.data(), p);
}

unsigned char* fence_end(void* p, size_t bytes) {
  return static_cast<unsigned char*>(p) + (bytes - kTagBytes);
}

// Whether the place at p ends with its tag: of one in use, of a free one, or none yet.
bool is_tagged(uintptr_t p, size_t bytes) {
  const uint64_t tag = load_tag(reinterpret_cast<const char*>(p) + bytes - kTagBytes);
  Marks marks;
  return tag == 0 || read_tag(p, tag, &marks) || tag == free_tag_of(p);
}

// Of an object without a tag nothing is known. Looked at again, as it may be freed meanwhile.
bool is_tagged_before(const void* p, size_t bytes) {
  const uintptr_t before = reinterpret_cast<uintptr_t>(p) - bytes;
  return LOFT_LIKELY(is_tagged(before, bytes)) ||
         is_from_before(reinterpret_cast<const void*>(before)) || is_tagged(before, bytes);
}

}  // namespace

void check_unwritten(const void* p, size_t bytes) {
  const uint64_t left = load_tag(tag_at(p, bytes));
  if (LOFT_UNLIKELY(!is_zero(p, bytes - kTagBytes) ||
                    (left != 0 && left != free_tag_of(reinterpret_cast<uintptr_t>(p))))) {
    report("write after free: the contents changed of", p);
  }
}

void* hand_out(void* p, size_t bytes, size_t asked, Maker maker, bool sampled) {
  const auto at = reinterpret_cast<uintptr_t>(p);
  void* const tag = tag_at(p, bytes);
  check_unwritten(p, bytes);
  const auto slack = static_cast<uint32_t>(bytes - kTagBytes - asked);
  raise_fence(fence_end(p, bytes), slack, fence_of(at));
  compiler_fence();
  store_tag(tag, tag_of(at, {slack, maker, sampled}));
  return p;
}

bool is_object(const void* p, size_t bytes, Marks* marks) {
  return read_tag(reinterpret_cast<uintptr_t>(p), load_tag(tag_at(p, bytes)), marks);
}

void report_damage(const char* call, const void* p) {
  report_for(call, "a write beyond the object has damaged what lies behind", p);
}

void report_none(const char* call, const void* p, size_t bytes) {
  const uint64_t tag = load_tag(tag_at(p, bytes));
  const bool freed = tag == free_tag_of(reinterpret_cast<uintptr_t>(p)) ||
                     (tag == 0 && is_zero(p, bytes - kTagBytes));
  if (!freed) report_damage(call, p);
  if (call[0] == 'f') report("double free of", p);
  const Text line = Text() << call << " of a freed object";
  report(line.data(), p);
}

void take_back(const char* call, void* p, size_t bytes, Marks marks, bool first) {
  unsigned char* const end = fence_end(p, bytes);
  if (LOFT_UNLIKELY(!is_fence_whole(end, marks.slack, fence_of(reinterpret_cast<uintptr_t>(p))))) {
    report_damage(call, p);
  }
  if (LOFT_UNLIKELY(!first && !is_tagged_before(p, bytes))) {
    report_for(call,
               "a write before the object, or beyond the one before it, has damaged what lies "
               "between them",
               p);
  }
  store_tag(end, 0);
  compiler_fence();
  clear(p, bytes - kTagBytes);
  compiler_fence();
  store_tag(end, free_tag_of(reinterpret_cast<uintptr_t>(p)));
}

void resize(void* p, size_t bytes, size_t asked, Marks before) {
  const auto slack = static_cast<uint32_t>(bytes - kTagBytes - asked);
  unsigned char* const end = fence_end(p, bytes);
  if (LOFT_UNLIKELY(!is_fence_whole(end, before.slack, fence_of(reinterpret_cast<uintptr_t>(p))))) {
    report_damage("realloc", p);
  }
  store_tag(end, 0);
  compiler_fence();
  // What the object gains, and what it gives up, reads as zero.
  clear_fence(end, before.slack);
  if (slack > before.slack) __builtin_memset(end - slack, 0, slack - before.slack);
  raise_fence(end, slack, fence_of(reinterpret_cast<uintptr_t>(p)));
  compiler_fence();
  store_tag(end, tag_of(reinterpret_cast<uintptr_t>(p), {slack, before.maker, before.sampled}));
}

}  // namespace loft::hard
