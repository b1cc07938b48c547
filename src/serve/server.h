// The socket of the option `socket`: a thread of loft's own that answers on it, and that exists
// only while the option is set. It has a table of files for itself, so neither can the program
// close its descriptors nor does it ever write into one of the program's. What it answers takes as
// long as it takes; the program waits for it only when it sets or clears the option. The child of a
// fork has none, and the option is cleared there.
#pragma once

#include "serve/routes.h"

namespace loft::serve {

// Called once, when the library is loaded, after background::enable. Starts the thread if the
// option says so.
void enable(ChangeOption change);

// The program may have changed the option: the thread ends, begins, or goes to another path. Not on
// the thread itself.
void follow();

// The process ends: removes the file. The thread goes on until there is no process.
void leave_place();

}  // namespace loft::serve
