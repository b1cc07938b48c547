// Which code lies at an address, where the loader is not asked: none is known. Stacks are followed
// by frame pointers then, and begin in loft's own functions.
#include "unwind/code.h"

namespace loft::unwind {

void note_code() {}

const Image& own_code() {
  static constinit Image none;
  return none;
}

const Image* find_lasting(uintptr_t) { return nullptr; }
bool find_present(uintptr_t, Image*) { return false; }
bool has_finder() { return false; }
bool name_code(uintptr_t, CodeName*) { return false; }
bool is_of_another(const char*) { return false; }
void stay_loaded() {}
size_t walk_by_compiler(uintptr_t*, size_t) { return 0; }

}  // namespace loft::unwind
