// The keeper: a thread of loft's own that gives memory back while the program does nothing. It
// looks around several times a second while anybody is awake, and sleeps without a time while
// nobody is. It is never needed for progress: where there is none, slow paths do its work now and
// then.
#pragma once

namespace loft::keeper {

// Called once, when the library is loaded: from now on a keeper may be started, by the first slow
// path that finds the program grown enough. After room::enable.
void enable();

// The program has changed an option: what was done for them when the library was loaded is done
// anew.
void options_changed();

}  // namespace loft::keeper
