// Statistics in the shapes that users know, glibc's mallinfo and malloc_info, and where they go by
// themselves. Nothing here allocates.
#pragma once

#include <malloc.h>
#include <stdio.h>

#include "loft/loft.h"

namespace loft {

// To standard error, as tables.
void print_stats();

// The same when the process ends, in one write, so that processes that share a standard error do
// not mix their lines.
void print_last_stats(loft_stats_format_t format);

#if defined(__GLIBC__)
// loft has one arena and counts bytes, not chunks; fields that tell chunks are zero. arena is what
// slabs and free spans hold, hblkhd what large objects hold; arena == uordblks + fordblks.
struct mallinfo2 memory_info();
struct mallinfo memory_info_int();  // the same; what an int cannot hold becomes INT_MAX

// malloc_info: glibc's elements as far as loft has their figures, then every field of loft_stats_t.
// 0, or EINVAL for options other than 0; a stream that fails knows it by itself, as in glibc.
int write_info_xml(int options, FILE* stream);
#endif

}  // namespace loft
