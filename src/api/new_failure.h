// What operator new does when memory has run out: calls the program's new_handler and tries again
// until it succeeds, the handler gives up, or there is none.
//
// loft links no C++ library, because C programs preload it too. Handler and exception are the C++
// library's; it is asked for at the moment of need, when it is certain to be there if anybody wants
// it.
#pragma once

#include <cstddef>
#include <new>

namespace loft {

// After a first failure. Without a handler, throws std::bad_alloc through the program's C++
// library; where there is none, stops the program with one line.
void* new_retry(size_t size);
void* new_retry(size_t size, std::align_val_t alignment);

// The same for the nothrow forms: nullptr without a handler, or when the handler throws.
void* new_retry_nothrow(size_t size);
void* new_retry_nothrow(size_t size, std::align_val_t alignment);

}  // namespace loft
