// The file of the socket: made, found to be an old one, removed. Its descriptors belong to a thread
// that has a table of files for itself.
#pragma once

#include "base/text.h"

namespace loft::inspect {

// The descriptor itself if it is above those that programs take for standard input, output and
// errors; or a copy that is, in its place. -1 for a descriptor below 0, or if the system refuses.
// So a line on standard error never lands in a socket.
int above_standard(int file);

// Makes a socket at `path`, which has at most 107 bytes, and listens on it. The file has mode 0600
// from the beginning. An old file stays unless it is a socket on which nobody listens. Returns the
// descriptor; or -1, and why.
int take_place(const char* path, Text* why);

// Removes the file if it still is the one that was made; the second call does nothing.
void remove_place();

// The same at the end of the process, on any thread: if the file is only just being made, the other
// thread removes it. Keeps errno.
void leave_place();

}  // namespace loft::inspect
