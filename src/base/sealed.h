// Static data that is written when the library is loaded, or once later, and is read-only but for
// that moment: who can write to any address of the program cannot write there. It lies where the
// linker puts pointers that the loader fills in and then protects (RELRO), beside those that are
// constant. So reading it costs what it always did, and nothing is done unless it is written.
//
//   LOFT_SEALED constinit Atomic<const Policies*> policies{&core_policies};
#pragma once

#include <cstddef>

namespace loft {

#define LOFT_SEALED [[gnu::section(".data.rel.ro.loft_sealed")]]

// Writes to such data, a word at a time, with release. `bytes` is a multiple of a word's. No other
// data there is written meanwhile. Afterwards it is read-only if it was before, which is the choice
// of who links the program. False, and nothing has changed, if the system refuses.
bool write_sealed(void* to, const void* from, size_t bytes);

}  // namespace loft
