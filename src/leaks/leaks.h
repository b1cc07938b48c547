// Which objects nothing points to: what a program has lost. A conservative search: each word in the
// program's data, in its stacks and in objects that were found so far is taken for a pointer, also
// into the middle of an object.
//
// Threads that run meanwhile may hide what they hold in registers alone, and what lies in freed
// memory or in the dead part of another thread's stack is taken for a pointer, too. So an object
// that is told as lost has been lost, but for the former, and some that are lost are not told.
#pragma once

#include <cstddef>

namespace loft::leaks {

// What a search has read, and how much private memory it passed over because nothing was ever
// written there.
struct LookedAt {
  size_t read;
  size_t passed_over;
};

// Finds the sampled objects that nothing points to, and counts them at their sites
// (profile/site.h). False without memory for the search, or if the system does not tell what is
// mapped or does not let its memory be copied. No lock may be held. Not for signal handlers.
bool search(LookedAt* looked_at = nullptr);

}  // namespace loft::leaks
