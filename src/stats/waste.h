// What the survivors of a program waste: a slab with few objects keeps all its pages, for as long
// as one of them lives, and nothing but their own class can use the rest.
#pragma once

namespace loft {

// Counts for each sampled object its share of what its slab wastes, by the place that is kept for
// it: (resident bytes - bytes of objects) / objects. False without memory.
bool count_waste();

}  // namespace loft
