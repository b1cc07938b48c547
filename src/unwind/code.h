// Which code lies at an address: executables and libraries, as the loader has mapped them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "unwind/image.h"

namespace loft::unwind {

// Notes what is never unloaded: the program, the libraries that it was started with, and
// libloft.so. Asks the loader, who takes his lock and may allocate. Called once.
void note_code();

// The code of libloft.so. Empty where loft is a part of a program.
const Image& own_code();

// The noted code at an address, or nullptr.
const Image* find_lasting(uintptr_t pc);

// Other code at an address, as long as the calling thread has a function running there: then nobody
// may unload it. Asks the loader, who takes no lock for this. False without.
bool find_present(uintptr_t pc, Image* image);

// Whether the loader can be asked. glibc can since 2.35.
bool has_finder();

// What the linker calls a place in the code that runs: in a file, so far behind its address 0.
struct CodeName {
  const char* file;  // as the loader knows it; "" for the program itself
  uintptr_t address;
  const uint8_t* build_id;  // nullptr for none
  size_t build_id_bytes;
};
// The name of an address in a function that the calling thread is in, by no lock and no system call
// but `is_readable`'s. False where the loader cannot be asked without a lock, and before
// `note_code`.
bool name_code(uintptr_t pc, CodeName* name);

// Whether the program finds a function of that name elsewhere than here, or one of its libraries
// other than the C++ library has one of its own. It takes the loader's lock, and may allocate.
bool is_of_another(const char* function);

// Keeps the library or plugin that contains loft in memory when it is closed: its objects may be in
// use then, and threads call loft when they end. libloft.so is linked so; a plugin's own link
// cannot be counted on. It takes the loader's lock, and may allocate.
void stay_loaded();

// The function of the compiler's library that walks a stack for exceptions. It takes the loader's
// lock. At most so many addresses; 0 if the process does not have it.
size_t walk_by_compiler(uintptr_t* frames, size_t most);

}  // namespace loft::unwind
