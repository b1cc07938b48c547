// What is counted of sampled objects when the process ends (Site::lost).
#pragma once

#include "files/inspect_table.h"

namespace loft {

// What the survivors of a program waste: a slab with few objects keeps all its pages, for as long
// as one of them lives, and nothing but their own class can use the rest. Counts for each sampled
// object its share of what its slab wastes, by the place that is kept for it: (resident bytes -
// bytes of objects) / objects. False without memory.
bool count_waste();

// The sampled objects that nothing points to (inspect/leaks.h). False if they cannot be looked for;
// but not where libloft-inspect is missing, which a line has said. No lock may be held. Not for
// signal handlers.
bool count_leaks(inspect::LookedAt* looked_at);

}  // namespace loft
