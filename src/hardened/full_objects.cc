// What full.cc and full_long.cc share, and what is done with objects of hardened=full but to make
// and to free them.
#include "base/bits.h"
#include "cache/object.h"
#include "hardened/before.h"
#include "hardened/cell.h"
#include "hardened/checks.h"
#include "malloc/allocate.h"
#include "malloc/ordinary.h"
#include "malloc/policy.h"
#include "os/fault.h"
#include "os/os.h"
#include "os/symbols.h"

namespace loft::hardened {

// The class whose cells hold such an object and its tag. kSizeClasses: none.
SizeClass class_for(ObjectRequest request) {
  size_t bytes = most(request.asked + hardened::kTagBytes, hardened::kLeastPlace);
  if (LOFT_UNLIKELY(request.alignment_log != kAlignmentLog)) {
    bytes = round_up(bytes, size_t{1} << request.alignment_log);
  }
  return bytes <= kSmallMax ? class_of(bytes) : kSizeClasses;
}

// Whether the program's object at p is one with a tag; or else one from before. Stops the program
// if there is none.
bool read_marks(const char* call, const void* p, Entry entry, Marks* marks) {
  check_start(call, p, entry);
  const size_t bytes = class_size(class_of_bin(entry.bin()));
  if (LOFT_LIKELY(is_object(p, bytes, marks))) return true;
  if (!is_from_before(p)) report_none(call, p, bytes);
  return false;
}

const char* name_of(Freed freed) {
  if (!freed.by_delete) return freed.has_size ? "free_sized" : "free";
  switch (freed.maker) {
    case Maker::kNewAligned:
      return "delete with an alignment";
    case Maker::kNewArray:
      return "delete[]";
    case Maker::kNewArrayAligned:
      return "delete[] with an alignment";
    default:
      return "delete";
  }
}

LOFT_COLD bool has_own_operators() {
  for (const char* name : {"_Znwm", "_Znam", "_ZdlPv", "_ZdaPv"}) {
    if (os::is_of_another(name)) return true;
  }
  return false;
}

LOFT_COLD bool has_good_size(Freed freed, size_t asked) {
  if (!freed.has_size || freed.by_delete) return false;
  const size_t alignment = size_t{1} << freed.alignment_log;
  return policy().good_size(alignment, most<size_t>(freed.size, 1)) == asked;
}

void check_fits(Freed freed, const void* p, Maker maker, size_t asked) {
  const bool has_another_size = freed.has_size && freed.size != asked;
  if (LOFT_LIKELY(maker == freed.maker && !has_another_size)) return;
  // An object of no bytes may have been given one.
  if (maker == freed.maker && freed.size == 0 && asked == 1) return;
  if (maker == freed.maker && has_good_size(freed, asked)) return;
  if (has_own_operators()) return;
  if (maker != freed.maker) {
    os::fault(Text() << name_of(freed) << " of " << p << ", which " << name_of(maker) << " made");
  }
  os::fault(Text() << name_of(freed) << " of " << p << " as an object of " << uint64_t{freed.size}
                   << " bytes: it has " << uint64_t{asked});
}

// ---- realloc, malloc_usable_size ----

size_t usable_size_of(const char* call, const void* p) {
  if (p == nullptr) return 0;
  if (LOFT_UNLIKELY(is_nothing(p))) {
    check_nothing(call, p);
    return 0;
  }
  const Entry entry = checked_entry(call, p);
  if (entry.bin() == kNothing) return 0;
  Marks marks;
  if (!entry.is_slab()) return usable_size_long(call, p, entry);
  if (!read_marks(call, p, entry, &marks)) return core_policy().usable_size(call, p);
  return class_size(class_of_bin(entry.bin())) - kTagBytes - marks.slack;
}

bool expand_short_or_long(const char* call, void* p, size_t size) {
  if (LOFT_UNLIKELY(is_nothing(p))) {
    check_nothing(call, p);
    return false;
  }
  const Entry entry = checked_entry(call, p);
  if (entry.bin() == kNothing) return false;
  if (!entry.is_slab()) return expand_long(call, p, entry, size);
  Marks marks;
  if (!read_marks(call, p, entry, &marks)) return core_policy().expand(call, p, size);
  const size_t bytes = class_size(class_of_bin(entry.bin()));
  if (!stays(bytes - kTagBytes, size)) return false;
  resize(call, p, bytes, size, marks);
  if (LOFT_UNLIKELY(marks.sampled)) resize_sample(p, size);
  return true;
}

size_t good_size_of(size_t alignment, size_t size) {
  if (size > kSmallMax || alignment > kSmallMax) return good_size_long(alignment, size);
  const auto log = static_cast<uint8_t>(highest_bit(most(alignment, kAlignment)));
  const SizeClass c = class_for({0, log, Maker::kMalloc, static_cast<uint32_t>(size)});
  return c == kSizeClasses ? good_size_long(alignment, size) : class_size(c) - kTagBytes;
}

void* reallocate_short_or_long(void* p, size_t size) {
  if (LOFT_UNLIKELY(is_nothing(p))) {
    check_nothing("realloc", p);
    return reallocate_by_copy(p, 0, size);
  }
  const Entry entry = checked_entry("realloc", p);
  if (entry.bin() == kNothing) return os::out_of_memory();
  Marks marks;
  if (!entry.is_slab()) return reallocate_long(p, entry, size);
  if (!read_marks("realloc", p, entry, &marks)) {
    return reallocate_by_copy(p, class_size(class_of_bin(entry.bin())), size);
  }
  const SizeClass c = class_of_bin(entry.bin());
  const size_t bytes = class_size(c);
  const size_t asked = bytes - kTagBytes - marks.slack;
  check_fits({}, p, marks.maker, asked);
  const ObjectRequest request = {0, kAlignmentLog, Maker::kMalloc, static_cast<uint32_t>(size)};
  if (size > kSmallMax || class_for(request) != c) {
    void* const moved = reallocate_by_copy(p, asked, size);
    if (moved != nullptr || size > asked) return moved;
    // A shorter object stays where it is, if there is no memory.
  }
  resize("realloc", p, bytes, size, marks);
  if (LOFT_UNLIKELY(marks.sampled)) resize_sample(p, size);
  return p;
}

// ---- Ranges ----

namespace {

[[noreturn]] LOFT_COLD void report_range(const char* call, const void* p, size_t bytes,
                                         size_t before, size_t asked) {
  os::fault(Text() << call << " of " << uint64_t{bytes} << " bytes at " << p << ", "
                   << uint64_t{before} << " bytes into an object of " << uint64_t{asked});
}

}  // namespace

void check_bounds_of(const char* call, const void* p, size_t bytes) {
  if (LOFT_UNLIKELY(!pagemap.contains(p))) {
    if (is_nothing(p)) report_range(call, p, bytes, 0, 0);
    return;
  }
  const ObjectRange cell = object_of(p);
  if (LOFT_UNLIKELY(cell.start == nullptr)) return;
  const size_t before = reinterpret_cast<uintptr_t>(p) - reinterpret_cast<uintptr_t>(cell.start);
  const Entry entry = pagemap.of(p);
  size_t asked = cell.size;
  Marks marks;
  if (LOFT_LIKELY(entry.is_slab())) {
    if (LOFT_LIKELY(is_object(cell.start, cell.size, &marks))) {
      asked = cell.size - kTagBytes - marks.slack;
    } else if (!is_from_before(cell.start)) {
      const Text what = Text() << call << " to or from";
      report_none(what.data(), cell.start, cell.size);
    }
  } else if (entry.bin() == kMedium || entry.bin() == kLarge) {
    asked = usable_size_long(call, cell.start, entry);
  }
  if (LOFT_UNLIKELY(before > asked || bytes > asked - before)) {
    report_range(call, p, bytes, before, asked);
  }
}

// Of objects above kSmallMax, what stands beside them tells: their memory may be gone meanwhile.
size_t size_in_cell(const void* p, size_t bytes) {
  const Entry entry = pagemap.of(p);
  if (!entry.is_slab()) return size_in_long(p, entry, bytes);
  Marks marks;
  if (is_object(p, bytes, &marks)) return bytes - kTagBytes - marks.slack;
  return is_from_before(p) ? bytes : 0;
}

const char* name_of(Maker maker) {
  switch (maker) {
    case Maker::kMalloc:
      return "malloc";
    case Maker::kNew:
      return "new";
    case Maker::kNewArray:
      return "new[]";
    case Maker::kNewAligned:
      return "new with an alignment";
    case Maker::kNewArrayAligned:
      break;
  }
  return "new[] with an alignment";
}

}  // namespace loft::hardened
