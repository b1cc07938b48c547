// Words inside free objects, whatever the program had there.
#pragma once

#include <cstdint>

namespace snmalloc {

using Word = uint64_t __attribute__((may_alias));

inline Word& word_at(uintptr_t address) { return *reinterpret_cast<Word*>(address); }

}  // namespace snmalloc
