// Address space of slabs that never passes from one size class to another (hardened=full). The
// addresses of a released slab have no memory, and wait for the next slab of their class. Which of
// those that wait comes next is drawn by lot; short slabs take addresses for several at once.
// Behind one new slab in sixteen lies a granule that can be neither read nor written.
//
// So a stale pointer to a small object only ever meets objects of its own size, at the same places.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/size_class.h"
#include "space/pagemap.h"
#include "space/window.h"

namespace loft::slab::apart {

// The class of the slab that lies there, or will: memory that waits reads as zero. kSizeClasses:
// neither, as far as the pagemap's entry says.
SizeClass class_at(Entry entry);

// `granules` granules for a slab of the class. {} without memory.
span::Range acquire(SizeClass size_class, size_t granules);

// Takes back what acquire returned, as a span; its pagemap entries are clear.
void release(SizeClass size_class, uintptr_t base, size_t granules, bool dirty);

void prepare_fork();
void finish_fork(bool child);

}  // namespace loft::slab::apart
