// Which objects nothing points to: what a program has lost. A conservative search: each word in the
// program's data, in its stacks and in objects that were found so far is taken for a pointer, also
// into the middle of an object.
//
// Threads that run meanwhile may hide what they hold in registers alone, and what lies in freed
// memory or in the dead part of another thread's stack is taken for a pointer, too. So an object
// that is told as lost has been lost, but for the former, and some that are lost are not told.
#pragma once

#include "files/inspect_table.h"

namespace loft::inspect {

bool search_leaks(const Objects& objects, LookedAt* looked_at);

}  // namespace loft::inspect
