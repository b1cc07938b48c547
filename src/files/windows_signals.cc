// Windows has no signals that one process sends to another.
#include "files/last_signal.h"
#include "files/signal_names.h"

namespace loft::files {

void on_termination(void (*)()) {}

void run_last(void (*hook)()) { hook(); }

bool on_signal(unsigned signal, void (*)()) { return signal == 0; }

bool signal_number(std::string_view, uint64_t&) { return false; }

}  // namespace loft::files
