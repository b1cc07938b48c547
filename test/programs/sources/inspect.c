// Says whether libloft-inspect.so is in the process, and what the C library knows of its
// surroundings. With two arguments, that option is set first, in another folder than the program
// was started in, and the program says how it came out to write a profile if one was asked for.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_mapped(const char* name) {
  FILE* const maps = fopen("/proc/self/maps", "r");
  char line[4096 + 512];
  int found = 0;
  while (fgets(line, sizeof line, maps) != NULL) found |= strstr(line, name) != NULL;
  fclose(maps);
  return found;
}

int main(int count, char** words) {
  if (count > 2) {
    int (*set)(const char*, const char*) = dlsym(RTLD_DEFAULT, "loft_option_set");
    if (chdir("/") != 0 || set == NULL || set(words[1], words[2]) != 0) return 1;
  }
  printf("%s, %s, %s\n", is_mapped("libloft-inspect.so") ? "open" : "not open",
         getenv("PATH") != NULL ? "environment" : "no environment", program_invocation_short_name);
  if (count > 2 && getenv("LOFT_PROFILE") != NULL) {
    int (*write)(const char*) = dlsym(RTLD_DEFAULT, "loft_profile_write");
    printf("written: %d\n", write("/dev/null"));
  }
  return 0;
}
