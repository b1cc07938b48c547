// The stack of the calling thread, for a profiler inside malloc: the return addresses of the
// functions that are running. It allocates nothing, takes no lock, and reads no memory that it does
// not know to be there, on whatever stack the program runs.
//
// On x86-64 a caller is found by call frame information, as exceptions find it (cfi.h). What an
// instruction's information comes down to is kept (rule_cache.h). At code without any the stack
// ends. Other architectures are followed by frame pointers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace loft::unwind {

// Looks for what `capture` needs. It may allocate and take locks, the loader's among them. Any
// thread may call it; further calls change nothing. False if stacks cannot be captured: the system
// does not tell which memory can be read, or another thread is looking.
bool prepare();

// Writes the return addresses of the running functions, innermost first, at most so many; returns
// how many. Of a function that a signal has interrupted it writes where. It begins with the caller
// of `capture`; but libloft.so leaves its own functions out, so that there the first address is in
// the function of the program that called malloc or one of its relatives. Where loft is a part of
// the program (libloft.a, the single file), no address tells its functions from the program's, and
// they come first. 0 before `prepare`.
//
// Any thread may call it, also in a signal handler. errno stays as it is. Where the loader cannot
// be asked without his lock (glibc before 2.35), the compiler's library asks him for code that was
// loaded later, unless the caller may not wait.
size_t capture(uintptr_t* frames, size_t most, bool may_wait = true);

// Whether an address is in the code of libloft.so. False everywhere if loft is part of a program.
bool is_own_code(uintptr_t pc);

}  // namespace loft::unwind
