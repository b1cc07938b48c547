// measured REPORT ADDRESS_SPACE PRELOAD COMMAND...: runs a command and leaves in REPORT the largest
// resident set, in KiB, that the command or any process it waited for reached. ADDRESS_SPACE is a
// limit in bytes or 0, PRELOAD a library or empty. A parent as small as this one matters: a process
// keeps the mark of what it was before exec().
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char** argv) {
  if (argc < 5) return 125;
  const pid_t child = fork();
  if (child < 0) return 125;
  if (child == 0) {
    const rlim_t bytes = strtoull(argv[2], NULL, 10);
    const struct rlimit limit = {bytes, bytes};
    if (bytes != 0 && setrlimit(RLIMIT_AS, &limit) != 0) _exit(125);
    if (argv[3][0] != 0) setenv("LD_PRELOAD", argv[3], 1);
    execvp(argv[4], argv + 4);
    _exit(127);
  }
  int status = 0;
  struct rusage usage;
  if (wait4(child, &status, 0, &usage) != child) return 125;
  FILE* report = fopen(argv[1], "w");
  if (report == NULL || fprintf(report, "%ld\n", usage.ru_maxrss) < 0 || fclose(report) != 0)
    return 125;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
