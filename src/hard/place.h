// A place of a slab under hardened=full, from the moment when it is handed out to the moment when
// it may be handed out again.
//
// At any moment, for whoever looks from another thread (hard/scan.h): if the tag is that of an
// object in use, the fence is whole. Where the fence is about to change, the tag is 0 before.
#pragma once

#include "hard/tag.h"

namespace loft::hard {

// Whether `bytes` bytes read as zero: a multiple of eight, from an address that is one.
bool is_zero(const void* from, size_t bytes);

// Makes the free place of `bytes` bytes at p an object of `asked`. Stops the program if something
// was written there since it was freed.
void* hand_out(void* p, size_t bytes, size_t asked, Maker maker, bool sampled);

// False if the program has no object with a tag at p.
bool is_object(const void* p, size_t bytes, Marks* marks);

// Stops the program over `call` of p, where none is.
[[noreturn]] void report_none(const char* call, const void* p, size_t bytes);

// Takes the object at p back: checks its fence and the tag before it, and clears it. Stops the
// program if one of them is damaged. `first`: no place lies before p.
void take_back(const char* call, void* p, size_t bytes, Marks marks, bool first);

// Stops the program if the free place at p was written to.
void check_unwritten(const void* p, size_t bytes);

// Stops the program over what lies behind the object at p, which `call` found.
[[noreturn]] void report_damage(const char* call, const void* p);

// Gives the object another length, for realloc. Stops the program if its fence is damaged.
void resize(void* p, size_t bytes, size_t asked, Marks before);

}  // namespace loft::hard
