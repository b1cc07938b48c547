// Memory populated ahead of its use. A heap that grows slab by slab would meet a fault on every
// page. Instead one call gives memory to the next granules: in huge pages where the system has
// them, else in a batch. What is ahead counts as free resident memory, is a few hundredths of the
// memory in use at most, or one huge page, and is given up by the second tick without a need.
// docs/decisions/073-first-touch.md
#pragma once

#include <cstddef>
#include <cstdint>

namespace loft::ahead {

// For a need of so many bytes. Populates the next step, if nothing resident can serve the need and
// the memory in use is worth it. Takes the locks of the spans.
void prepare(size_t needed);

// --- Under the lock of the spans from here on. ---

// Hands out so many bytes; 0 if fewer are ahead.
uintptr_t take(size_t length);

// Lists what is ahead as a resident free span.
void give_up();

// Gives up what is ahead if nothing was taken since the last tick.
void tick();

}  // namespace loft::ahead
