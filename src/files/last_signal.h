// Signals that loft handles: the one that ends the process, and one that asks for something. A
// program that handles or ignores a signal is left alone. Hooks may use what signal handlers may.
#pragma once

namespace loft::files {

// If SIGTERM ends the process by default: `hook` runs first, as by run_last, in the thread that
// gets the signal, and the process ends by the signal as before.
void on_termination(void (*hook)());

// Runs `hook`, for what a process does once, at its end; or waits for the thread that runs it, or
// has run it. The calling thread takes no signals meanwhile, since a handler may end the process.
void run_last(void (*hook)());

// `hook` runs whenever that signal arrives, in place of what it does by default; 0: no longer. For
// one signal at a time. False if the program handles or ignores the signal, told once for each.
bool on_signal(unsigned signal, void (*hook)());

}  // namespace loft::files
