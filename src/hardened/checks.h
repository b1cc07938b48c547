// What the parts of the hardened modes share.
#pragma once

#include "cache/bins.h"
#include "hardened/tag.h"
#include "malloc/ordinary.h"
#include "malloc/policy.h"
#include "space/pagemap.h"

namespace loft::hardened {

// The name of the call that frees.
const char* name_of(Freed freed);

// Stops the program if that call does not fit the one that made the object at p, or names another
// size than the one asked for.
void check_fits(Freed freed, const void* p, Maker maker, size_t asked);

// Whether the call names a size whose good size is what was asked for (loft_good_size): who asks
// for that need not remember it.
bool has_good_size(Freed freed, size_t asked);

// Whether the program has an operator new or delete of its own, above malloc. Where it has not all
// forms of them, the others are loft's: these get objects of the program's forms, which get loft's,
// and a size may be another one than the one that malloc was asked for.
bool has_own_operators();

// The class whose cells hold such an object and its tag. kSizeClasses: none.
SizeClass class_for(ObjectRequest request);

// Whether the program's object at p is one with a tag; or else one from before. Stops the program
// if there is none.
bool read_marks(const char* call, const void* p, Entry entry, Marks* marks);

// For a sampled object that stays where it is with another length: its sample says so.
void resize_sample(const void* p, size_t size);

// As Policy, of any object.
void* reallocate_short_or_long(void* p, size_t size);
size_t usable_size_of(const char* call, const void* p);
bool expand_short_or_long(const char* call, void* p, size_t size);
size_t good_size_of(size_t alignment, size_t size);
void check_bounds_of(const char* call, const void* p, size_t bytes);
size_t size_in_cell(const void* p, size_t bytes);

// --- Objects above kSmallMax, or aligned to more: as Policy, with the pagemap's entry. ---

void* allocate_long(size_t size, size_t alignment, bool zeroed, Maker maker);
void free_long(void* p, Entry entry, Freed freed);
void* reallocate_long(void* p, Entry entry, size_t size);
size_t usable_size_long(const char* call, const void* p, Entry entry);
bool expand_long(const char* call, void* p, Entry entry, size_t size);
size_t good_size_long(size_t alignment, size_t size);
size_t size_in_long(const void* p, Entry entry, size_t bytes);

// The names of the calls that make objects, for reports.

const char* name_of(Maker maker);

// Whether that is the name of a form of free or delete.
inline bool frees(const char* call) { return call[0] == 'f' || call[0] == 'd'; }

}  // namespace loft::hardened
