// Memory populated ahead of its use. A heap that grows slab by slab would meet a fault on every
// page. Instead one call gives memory to the next granules: in huge pages where the system has
// them, else in a batch. What is ahead counts as free resident memory, and is a 32nd of the memory
// in use at most, from 64 MiB on an eighth, and one huge page. It is given up by the second tick
// without a need.
// docs/decisions/074-first-touch.md
#pragma once

#include <cstddef>
#include <cstdint>

namespace loft::prefault {

// Whether a class of which so many bytes are in use may take what is ahead.
bool serves(size_t filled);

// For a need of so many bytes, by a class of which `filled` are in use. Populates the next step, if
// nothing resident can serve the need and the memory in use is worth it. False if the class is too
// short to take what is ahead. Takes the locks of the spans.
bool prepare(size_t needed, size_t filled);

// --- Under the lock of the spans from here on. ---

// Hands out so many bytes; 0 if fewer are ahead.
uintptr_t take(size_t length);

// Lists what is ahead as a resident free span.
void give_up();

// Gives up what is ahead if nothing was taken since the last tick.
void tick();

}  // namespace loft::prefault
