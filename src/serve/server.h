// The socket of the option `socket`: a thread of loft's own, which exists only while the option is
// set, and in which libloft-inspect answers. It has a table of files for itself, so neither can the
// program close its descriptors nor does it ever write into one of the program's. The program waits
// for it only when it sets or clears the option. The child of a fork has none, and the option is
// cleared there.
#pragma once

#include <string_view>

namespace loft::serve {

// Changes an option; returns 0 or an error as loft_option_set does. Of the floor above.
using ChangeOption = int (*)(std::string_view name, std::string_view value);

// Called once, when the library is loaded, after background::enable. Starts the thread if the
// option says so.
void enable(ChangeOption change);

// The program may have changed the option: the thread ends, begins, or goes to another path. Not on
// the thread itself, and not with a lock of loft's held: the library is opened.
void follow();

// The process ends: removes the file. The thread goes on until there is no process.
void leave_place();

}  // namespace loft::serve
