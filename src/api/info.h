// Statistics in the shapes that users know: glibc's mallinfo and malloc_info, a text table, a line
// of JSON. All from one loft_stats_t; nothing here allocates.
#pragma once

#include <malloc.h>
#include <stdio.h>

namespace loft {

enum class StatsFormat { kText, kJson };

// To standard error, in one write.
void print_stats(StatsFormat format);

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
