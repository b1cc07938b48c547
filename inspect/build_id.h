// The build id of code, by the file's header in front of its first mapping.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace loft::inspect {

// Longer ones are cut.
inline constexpr size_t kLongestBuildId = 64;

// Of what is mapped at [begin, end), from the file's beginning on. Returns how many bytes it has;
// 0: none, or it cannot be read. `copy` says whether all of these bytes could be had.
size_t find_build_id(uintptr_t begin, uintptr_t end,
                     bool (*copy)(void* to, uintptr_t from, size_t bytes),
                     uint8_t (&id)[kLongestBuildId]);

}  // namespace loft::inspect
