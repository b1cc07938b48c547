// operator new without memory: calls the program's new_handler and tries again, until (a) the
// allocation succeeds, (b) the handler gives up, or (c) there is no handler.
//
// loft links no C++ library, because C programs preload it too. The handler and the exception
// belong to the C++ library. It is looked up at the failure itself: a program that needs it has
// loaded it by then.
#pragma once

#include <cstddef>

#include "cache/bins.h"

namespace loft {

// `maker`: the form of new. `alignment`: 0 for none. Called after a first failure. Without a
// handler, throws std::bad_alloc through the program's C++ library. Without such a library, stops
// the program with one line.
void* new_retry(size_t size, size_t alignment, Maker maker);

// For the nothrow forms: nullptr without a handler, or if the handler throws.
void* new_retry_nothrow(size_t size, size_t alignment, Maker maker);

// The same for another allocator's operators, which `again` asks.
using Again = void* (*)(size_t size, size_t alignment, Maker maker);
void* retry_with(size_t size, size_t alignment, Maker maker, Again again);
void* retry_nothrow_with(size_t size, size_t alignment, Maker maker, Again again);

// Sets *object to the result of the C++ library's own nothrow form. That calls the form that throws
// by its name, which may be the program's own, and catches; loft cannot. False if no such library
// is loaded.
bool catch_from_new(size_t size, size_t alignment, Maker maker, void** object);

}  // namespace loft
