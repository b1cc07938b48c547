// Statistics in glibc's forms, mallinfo and malloc_info, and the reports to standard error. Nothing
// here allocates.
#pragma once

#include <stdio.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "loft/loft.h"

#if defined(__GLIBC__) && __GLIBC_MINOR__ < 33
// As later ones declare it.
struct mallinfo2 {
  size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
#endif

namespace loft {

// To standard error, as tables.
void print_stats();

// The report at the end of the process, in one write: processes that share a standard error do not
// mix their lines.
void print_last_stats(loft_stats_format_t format);

#if defined(__GLIBC__)
// loft has one arena and counts bytes, not chunks; fields that count chunks are zero. arena is the
// memory of slabs and free spans, hblkhd that of large objects; arena == uordblks + fordblks.
struct mallinfo2 memory_info();
struct mallinfo memory_info_int();  // the same; larger values become INT_MAX

// malloc_info: glibc's elements, as far as loft has the figures. Returns 0, or EINVAL for options
// other than 0. A failed write shows only in the stream's error flag, as in glibc.
int write_info_xml(int options, FILE* stream);
#endif

}  // namespace loft
