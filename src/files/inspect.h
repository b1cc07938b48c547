// The stack of the calling thread, the names of code, profiles as files, and a server on a socket:
// by libloft-inspect.so, which is opened when an option asks for what it does, or by
// libloft-inspect.a in the program. Where neither is, there is none of it.
#pragma once

#include "files/inspect_table.h"

namespace loft::inspect {

// Opens the library that lies beside the file that loft is in, unless the program has it in itself
// or it is open. nullptr, and why not. It may allocate and take the loader's lock, so no lock of
// loft's may be held. Any thread may call it.
const Table* library(const char** why);

// nullptr: it is not open. Any thread, also in a signal handler.
const Table* opened_library();

// Opens it, for stacks and profiles. If they cannot be had, a line on standard error says why.
// Further calls change nothing. While another thread opens it, stacks are empty.
void open();

// Writes the return addresses of the running functions, innermost first, at most so many; returns
// how many. Of a function that a signal has interrupted it writes where. libloft.so leaves its own
// functions out, so that the first address is in the function of the program that called malloc or
// one of its relatives. Where loft is a part of the program (libloft.a, the single file), no
// address tells its functions from the program's, and they come first. 0 before `open`.
//
// Any thread may call it, also in a signal handler and with any lock held: it allocates nothing and
// waits for nobody. It reads what the program's frame information says, unchecked: a stack that has
// been overwritten may fault.
size_t capture(uintptr_t* frames, size_t most);

// The name of an address in code. False if there is none, and before `open`.
bool name_code(uintptr_t pc, CodeName* name);

}  // namespace loft::inspect
