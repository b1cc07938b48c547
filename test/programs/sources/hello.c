// Says hello, or with an argument tells the largest resident set so far in KiB; neither allocates.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char** argv) {
  (void)argv;
  if (argc == 1) {
    return write(1, "hello\n", 6) == 6 ? 0 : 1;
  }
  char text[4096];
  const int status = open("/proc/self/status", O_RDONLY);
  const ssize_t size = read(status, text, sizeof(text) - 1);
  if (size <= 0) return 1;
  text[size] = 0;
  const char* mark = strstr(text, "VmHWM:");
  if (mark == NULL) return 1;
  mark += strspn(mark, "VmHWM: \t");
  const size_t digits = strspn(mark, "0123456789");
  return write(1, mark, digits) == (ssize_t)digits ? 0 : 1;
}
