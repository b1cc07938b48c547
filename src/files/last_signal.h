// A signal that ends the process, and what is to be done before.
#pragma once

namespace loft::files {

// If SIGTERM ends the process by default: `hook` runs first, in the thread that gets the signal,
// and the process ends by the signal as before. A program that handles or ignores the signal, now
// or later, is left alone. The hook may use what signal handlers may.
void on_termination(void (*hook)());

}  // namespace loft::files
