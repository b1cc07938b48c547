// Gives unused memory back that is more than its bound (space/unused.h): free spans first, then
// what is free in the slabs and runs of all heaps.
#pragma once

namespace loft {

// With no lock held. One thread does it, and others go on.
void purge_excess();

// In the child of a fork.
void forget_excess();

}  // namespace loft
