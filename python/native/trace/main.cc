// loft-trace: reads the chunks of a trace for `loft replay` (reader.h).
#include <stdio.h>
#include <stdlib.h>

#include "reader.h"
#include "tables.h"

// One line on standard error says what is wrong with the file.
void trace::fail(const char* why) {
  fprintf(stderr, "%s\n", why);
  exit(1);
}

int main(int argc, char** argv) { return trace::read_trace(argc, argv); }
