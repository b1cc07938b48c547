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
void* new_retry(size_t size, Maker maker = Maker::kNew);
void* new_retry(size_t size, std::align_val_t alignment, Maker maker = Maker::kNewAligned);

// For the nothrow forms: nullptr without a handler, or if the handler throws.
void* new_retry_nothrow(size_t size, Maker maker = Maker::kNew);
void* new_retry_nothrow(size_t size, std::align_val_t alignment, Maker maker = Maker::kNewAligned);

}  // namespace loft
