// The smallest program: says hello. With --memory it then says its peak and present memory in KiB.
//
// Started by startup.cc, to see what an allocator costs a program that hardly uses it. It uses
// nothing of the C++ library and is linked without it, as a C program would be.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char** argv) {
  puts("hello");
  fflush(stdout);
  if (argc > 1 && strcmp(argv[1], "--memory") == 0) {
    static char status[8192];
    int fd = open("/proc/self/status", O_RDONLY);
    if (fd < 0 || read(fd, status, sizeof status - 1) <= 0) return 1;
    const char* peak = strstr(status, "VmHWM:");
    const char* present = strstr(status, "VmRSS:");
    if (peak == nullptr || present == nullptr) return 1;
    printf("%ld %ld\n", strtol(peak + 6, nullptr, 10), strtol(present + 6, nullptr, 10));
  }
}
