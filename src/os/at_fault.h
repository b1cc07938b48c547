// This thread is ending the process: never reset, because a handler of SIGABRT may delay the end.
// Or it is in a handler of the program's (files/handler.cc). While it is set, a wait of three
// seconds ends the process, and so does a second fault.
#pragma once

#include "base/macros.h"

namespace loft::os {

extern LOFT_HIDDEN LOFT_TLS __thread bool at_fault;

}  // namespace loft::os
