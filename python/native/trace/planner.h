// Makes a plan for loft-replay of the calls of one process.
#ifndef LOFT_TRACE_PLANNER_H_
#define LOFT_TRACE_PLANNER_H_

#include "calls.h"

namespace trace {

// Into the file `out`, as plan.h describes it. Of the calls, what a replay has no use for is
// forgotten.
void write_plan(Calls& calls, const char* out);

}  // namespace trace

#endif  // LOFT_TRACE_PLANNER_H_
