#include "api/describe.h"

#include "cache/object.h"
#include "files/misuse.h"
#include "heap/large.h"
#include "heaps/user_heap.h"
#include "loft/loft.h"
#include "slab/medium_runs.h"

namespace loft {

Text describe_address(const void* p) {
  Text line;
  if (!pagemap.contains(p)) {
    return line << p
                << (UserHeap::in_a_region(p) ? " lies in a region of a heap of the program's own"
                                             : " lies outside of the heap");
  }
  const Entry entry = large::entry_around(p);
  const ObjectRange object = object_of(p);
  if (object.start == nullptr) {
    line << p << " lies in no object";
  } else {
    const auto into = reinterpret_cast<uintptr_t>(p) - reinterpret_cast<uintptr_t>(object.start);
    line << "object " << object.start << " of " << uint64_t{object.size} << " bytes";
    if (into != 0) line << ", " << uint64_t{into} << " bytes into it";
  }
  if (entry.is_slab()) {
    return line << ", slab " << reinterpret_cast<const void*>(slab::base_of(p, entry)) << ", heap "
                << uint64_t{entry.owner()};
  }
  if (medium::is_sampled(entry)) return line << ", sampled for the profile";
  if (entry.bin() == kMedium) return line << ", medium, heap " << uint64_t{entry.owner()};
  if (entry.bin() == kLarge) return line << ", large";
  if (entry.bin() == kGuest) return line << ", heap of the program's own";
  return line << (entry.bin() == kFreeSpan ? ", free memory" : "");
}

}  // namespace loft

void loft_set_message_handler(loft_message_t handler, void* closure) noexcept {
  loft::files::set_message_handler(handler, closure);
}

void loft_set_report_handler(loft_report_t handler, void* closure) noexcept {
  loft::files::set_misuse_handler(handler, closure);
}
