// Comes before each of snmalloc's tests, which are built without its allocator.
#include <snmalloc/snmalloc_core.h>
#include <test/snmalloc_testlib.h>

// snmalloc aligns an object by its size; malloc owes nobody that.
#define natural_alignment(size) 1
// In the place of snmalloc's operators, whose file is an empty one here.
#define EXCEPTSPEC noexcept
