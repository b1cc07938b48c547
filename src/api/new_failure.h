// operator new without memory: calls the program's new_handler and tries again, until (a) the
// allocation succeeds, (b) the handler gives up, or (c) there is no handler.
//
// loft links no C++ library, because C programs preload it too. The handler and the exception
// belong to the C++ library. It is looked up at the failure itself: a program that needs it has
// loaded it by then.
#pragma once

#include <cstddef>
#include <new>

#include "cache/bins.h"

namespace loft {

// `maker`: the form of new. Called after a first failure. Without a handler, throws std::bad_alloc
// through the program's C++ library. Without such a library, stops the program with one line.
void* new_retry(size_t size, Maker maker);
void* new_retry(size_t size, std::align_val_t alignment, Maker maker);

// For the nothrow forms: nullptr without a handler, or if the handler throws.
void* new_retry_nothrow(size_t size, Maker maker);
void* new_retry_nothrow(size_t size, std::align_val_t alignment, Maker maker);

// The same for another allocator's operators, which `again` asks. `alignment`: 0 for none.
using Again = void* (*)(size_t size, size_t alignment, Maker maker);
void* retry_with(size_t size, size_t alignment, Maker maker, Again again);
void* retry_nothrow_with(size_t size, size_t alignment, Maker maker, Again again);

}  // namespace loft
