// This thread is ending the process: never reset, because a handler of SIGABRT may delay the end.
// Or it is in a handler of the program's (files/handler.cc). While it is set, a wait of three
// seconds ends the process, and so does a second fault.
#pragma once

#include "base/per_thread.h"

namespace loft::os {

LOFT_DECLARE_PER_THREAD(bool, at_fault, 2, false);

}  // namespace loft::os
