// What a fault was, as the processor has told it.
#pragma once

namespace loft::unwind {

// `context`: the third argument of a signal's handler. 1: a write; 0: a read; -1: not known.
int wrote(const void* context);

}  // namespace loft::unwind
