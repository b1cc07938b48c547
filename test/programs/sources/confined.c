// confined FILTER PROGRAM [ARGUMENT]...: runs a program under a filter of system calls.
#include "confine.h"

int main(int argc, char** argv) {
  if (argc < 3) return 125;
  confine(argv[1]);
  execv(argv[2], argv + 2);
  return 126;
}
