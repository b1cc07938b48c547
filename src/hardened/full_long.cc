// Long objects of hardened=full. Up to kMostMedium, they lie in runs as ever, with a tag behind
// what was asked for. Longer ones lie between inaccessible pages.
#include "base/bits.h"
#include "base/peek.h"
#include "cache/medium_cache.h"
#include "cache/object.h"
#include "hardened/before.h"
#include "hardened/cell.h"
#include "hardened/checks.h"
#include "hardened/guarded.h"
#include "hardened/quarantine.h"
#include "hardened/secrets.h"
#include "hardened/tag.h"
#include "malloc/allocate.h"
#include "malloc/ordinary.h"
#include "os/fault.h"
#include "os/os.h"
#include "profile/progress.h"
#include "profile/samples.h"
#include "runtime/background.h"
#include "runtime/lifecycle.h"
#include "sampling/sampling.h"
#include "space/span.h"

namespace loft::hardened {

namespace {

// A shorter object costs less to clear than the calls to the system that guard it.
constexpr size_t kMostMedium = 128 * 1024;

bool fits_run(size_t size, size_t alignment) {
  return size + kTagBytes > kSmallMax && size + kTagBytes <= kMostMedium &&
         alignment <= os::page_size();
}

bool take_sample(const void* p, size_t size) {
  if (LOFT_LIKELY(!profile::on())) return false;
  const size_t bytes = round_up(size, os::page_size());
  return !profile::passes(bytes) && profile::note(p, size, bytes, nullptr);
}

[[noreturn]] LOFT_COLD void report_long_damage(const char* call, const void* p, size_t asked) {
  os::fault(Text() << call << ": a write beyond the object has damaged what lies behind " << p
                   << ", of " << uint64_t{asked} << " bytes");
}

// ---- In runs ----

struct InRun {
  size_t asked;  // without the tag
  Marks marks;
  bool tagged;  // or it is from before
};

// Stops the program if the program has no object at p.
InRun look_at(const char* call, const void* p, Entry entry) {
  check_start(call, p, entry);
  MediumRun* const run = medium::run_at(entry);
  const size_t used = run->word_at(p).object().asked;
  if (LOFT_UNLIKELY(medium::is_sampled(entry))) return {used, {}, false};
  const size_t asked = used - kTagBytes;
  Marks marks{};
  const uint64_t tag = load_bytes(static_cast<const char*>(p) + asked);
  if (LOFT_LIKELY(read_tag(reinterpret_cast<uintptr_t>(p), tag, &marks))) {
    return {asked, marks, true};
  }
  if (is_from_before(p)) return {asked + kTagBytes, {}, false};
  if (tag != 0) report_long_damage(call, p, asked);
  os::fault(Text() << (call[0] == 'f' ? "double free" : call) << " of " << p
                   << (call[0] == 'f' ? "" : ", a freed object"));
}

void tag_in_run(void* p, size_t size, Marks marks) {
  store_bytes(static_cast<char*>(p) + size, tag_of(reinterpret_cast<uintptr_t>(p), marks));
}

void* allocate_in_run(size_t size, Maker maker) {
  void* const p = allocate_large(size + kTagBytes, 1, true);
  if (LOFT_UNLIKELY(p == nullptr)) return nullptr;
  tag_in_run(p, size, {0, maker, take_sample(p, size)});
  return p;
}

// An object that leaves the quarantine.
void check_long_unwritten(const void* p) {
  const MediumRun* const run = medium::run_at(pagemap.of(p));
  const size_t used = run->words[run->page_at(p)].object().asked;
  if (LOFT_LIKELY(is_zero(p, used / sizeof(uint64_t) * sizeof(uint64_t)))) return;
  os::fault(Text() << "write after free: the contents changed of " << p << ", of "
                   << uint64_t{used - kTagBytes} << " bytes");
}

void free_in_run(void* p, Entry entry, Freed freed) {
  const InRun object = look_at(name_of(freed), p, entry);
  if (LOFT_LIKELY(object.tagged)) {
    check_fits(freed, p, object.marks.maker, object.asked);
    if (LOFT_UNLIKELY(object.marks.sampled)) profile::forget(p);
    __builtin_memset(p, 0, object.asked + kTagBytes);
    {
      const lifecycle::SlowPath slow;
      Quarantine* const quarantine = quarantine_of(slow.thread());
      if (quarantine != nullptr) p = exchange_medium(quarantine, p);
    }
    if (p == nullptr) return;
    check_long_unwritten(p);
  } else {
    forget_before(p);
  }
  free_metered(p);  // from before, it may be a sample
}

// ---- Between guards ----

unsigned char* fence_end(const Large& object) {
  return reinterpret_cast<unsigned char*>(object.base + object.bytes);
}

void raise_fence_of(const Large& object) {
  raise_fence(fence_end(object), object.bytes - object.asked, fence_of(object.base));
}

void check_fence(const char* call, const Large& object) {
  if (LOFT_LIKELY(
          is_fence_whole(fence_end(object), object.bytes - object.asked, fence_of(object.base)))) {
    return;
  }
  report_long_damage(call, reinterpret_cast<const void*>(object.base), object.asked);
}

void* allocate_guarded(size_t size, size_t alignment, Maker maker) {
  if (size > PTRDIFF_MAX - 4 * kGranule || alignment > PTRDIFF_MAX / 2 || !span::initialise()) {
    return os::out_of_memory();
  }
  background::look_after();
  void* p = large::allocate_guarded(size, alignment);
  if (LOFT_UNLIKELY(p == nullptr)) {
    reclaim();
    p = large::allocate_guarded(size, alignment);
  }
  if (LOFT_UNLIKELY(p == nullptr)) return refuse(size);
  Large* const object = large::at(pagemap.of(p));
  object->maker = static_cast<uint8_t>(maker);
  object->sampled = take_sample(p, size);
  raise_fence_of(*object);
  lifecycle::count_net(object->bytes);
  return p;
}

// Where the object's pages are enough. What it gains, and what it gives up, reads as zero, or
// cannot be read. Its fence was checked.
bool resize_guarded(Large* object, size_t size) {
  if (size > object->bytes) return false;
  const size_t bytes = round_up(most<size_t>(size, 1), os::page_size());
  const size_t before = object->bytes;
  if (bytes < before && !large::shrink_guarded(object, bytes)) return false;
  lifecycle::count_net(object->bytes - before);
  clear_fence(fence_end(*object), object->bytes - object->asked);
  if (size < object->asked) {
    __builtin_memset(reinterpret_cast<char*>(object->base) + size, 0, object->asked - size);
  }
  object->asked = size;
  raise_fence_of(*object);
  if (LOFT_UNLIKELY(object->sampled))
    resize_sample(reinterpret_cast<const void*>(object->base), size);
  return true;
}

void free_guarded(Large* object, Freed freed) {
  auto* const p = reinterpret_cast<void*>(object->base);
  check_fence(name_of(freed), *object);
  check_fits(freed, p, static_cast<Maker>(object->maker), object->asked);
  if (LOFT_UNLIKELY(object->sampled)) profile::forget(p);
  lifecycle::count_net(-object->bytes);
  large::release_guarded(object);
  background::look_after();
}

}  // namespace

void resize_sample(const void* p, size_t size) {
  profile::Sample* const sample = profile::lift(p);
  const size_t charged = profile::charged_of(sample);
  if (sample != nullptr) profile::tell_of_end(sample);
  profile::put_down(sample, p, size, charged);
}

void* allocate_long(size_t size, size_t alignment, bool, Maker maker) {
  return fits_run(size, alignment) ? allocate_in_run(size, maker)
                                   : allocate_guarded(size, alignment, maker);
}

void free_long(void* p, Entry entry, Freed freed) {
  if (entry.bin() == kMedium) return free_in_run(p, entry, freed);
  if (entry.bin() != kLarge) return core_policy().free(p);
  check_start(name_of(freed), p, entry);
  Large* const object = large::at(entry);
  if (LOFT_LIKELY(object->guarded)) return free_guarded(object, freed);
  forget_before(p);
  free_metered(p);
}

void* reallocate_long(void* p, Entry entry, size_t size) {
  const Freed by_realloc = {};
  if (entry.bin() == kMedium) {
    const InRun object = look_at("realloc", p, entry);
    if (object.tagged) check_fits(by_realloc, p, object.marks.maker, object.asked);
    return reallocate_by_copy(p, object.asked, size);
  }
  if (entry.bin() != kLarge) return core_policy().reallocate(p, size);
  check_start("realloc", p, entry);
  Large* const object = large::at(entry);
  if (LOFT_UNLIKELY(!object->guarded)) return reallocate_by_copy(p, object->asked, size);
  check_fence("realloc", *object);
  check_fits(by_realloc, p, static_cast<Maker>(object->maker), object->asked);
  if (size > kMostMedium && resize_guarded(object, size)) return p;
  void* const moved = reallocate_by_copy(p, object->asked, size);
  // A shorter object stays where it is, if there is no memory.
  return moved == nullptr && resize_guarded(object, size) ? p : moved;
}

namespace {

// In its pages, as they are.
bool expand_in_pages(const char* call, void* p, Entry entry, size_t size) {
  const InRun object = look_at(call, p, entry);
  if (!object.tagged) return size <= object.asked;
  MediumRun* const run = medium::run_at(entry);
  const size_t most_asked = run->bytes_of(p) - kTagBytes;
  if (size > most_asked) return false;
  // What it gains, and what it gives up, reads as zero.
  auto* const bytes = static_cast<char*>(p);
  __builtin_memset(bytes + object.asked, 0, kTagBytes);
  if (size < object.asked) __builtin_memset(bytes + size, 0, object.asked - size);
  MediumWord& word = run->word_at(p);
  word.set(word.object().pages, size + kTagBytes);
  tag_in_run(p, size, object.marks);
  if (LOFT_UNLIKELY(object.marks.sampled)) resize_sample(p, size);
  return true;
}

}  // namespace

bool expand_long(const char* call, void* p, Entry entry, size_t size) {
  if (entry.bin() == kMedium) return expand_in_pages(call, p, entry, size);
  if (entry.bin() != kLarge) return core_policy().expand(call, p, size);
  check_start(call, p, entry);
  Large* const object = large::at(entry);
  if (LOFT_UNLIKELY(!object->guarded)) return size <= object->bytes;
  check_fence(call, *object);
  return resize_guarded(object, size);
}

size_t good_size_long(size_t alignment, size_t size) {
  if (size > PTRDIFF_MAX - 4 * kGranule) return size;
  const size_t page = os::page_size();
  return fits_run(size, alignment) ? round_up(size + kTagBytes, page) - kTagBytes
                                   : round_up(size, page);
}

size_t usable_size_long(const char* call, const void* p, Entry entry) {
  if (entry.bin() == kMedium) return look_at(call, p, entry).asked;
  if (entry.bin() != kLarge) return core_policy().usable_size(call, p);
  check_start(call, p, entry);
  const Large* const object = large::at(entry);
  return object->guarded ? object->asked : object->bytes;
}

size_t size_in_long(const void* p, Entry entry, size_t bytes) {
  if (is_from_before(p)) return bytes;
  if (entry.bin() == kLarge) return peek(large::at(entry)->asked);
  if (entry.bin() != kMedium) return bytes;
  const size_t used = medium::run_at(entry)->peek_at(p).asked;
  return used > kTagBytes ? least(used - kTagBytes, bytes) : 0;
}

}  // namespace loft::hardened
