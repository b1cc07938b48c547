// loft-launch: runs one command and reports what it cost. `loft compare` starts one for each run.
//
//   loft-launch REPORT GATE PRELOAD COUNT COMMAND [ARGUMENT...]
//
// REPORT is a descriptor to which one line is written: "done" and ten numbers, see report() below;
// or "exec ERRNO" when there was nothing to run. GATE is a descriptor that is at its end when the
// caller has no more use for this process. PRELOAD is the command's LD_PRELOAD, empty for none; the
// launcher itself runs without. COUNT is 1 if instructions and cycles are to be counted.
//
// Why a process of its own: the kernel lets a process start with the peak memory of whoever forked
// it, and an interpreter's is larger than most commands'. And it adopts what the command leaves
// behind, so that its caller finds every process below it and can end them all.
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

namespace {

// A descriptor that counts `event` in all that this process forks from now on, from each one's exec
// to its end; or -errno. User mode alone, which is what unprivileged programs may count.
int count(uint64_t event) {
  perf_event_attr attributes;
  memset(&attributes, 0, sizeof(attributes));
  attributes.size = sizeof(attributes);
  attributes.type = PERF_TYPE_HARDWARE;
  attributes.config = event;
  attributes.disabled = 1;
  attributes.enable_on_exec = 1;
  attributes.inherit = 1;
  attributes.exclude_kernel = 1;
  attributes.exclude_hv = 1;
  const long descriptor =
      syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
  return descriptor < 0 ? -errno : static_cast<int>(descriptor);
}

// What was counted, or the -errno of the attempt.
long long counted(int counter) {
  long long value = 0;
  if (counter < 0) return counter;
  return read(counter, &value, sizeof(value)) == sizeof(value) ? value : -EIO;
}

long long microseconds(const timeval& time) { return time.tv_sec * 1000000LL + time.tv_usec; }

long long now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

void set_or_unset(const char* name, const char* value) {
  if (*value == 0) {
    unsetenv(name);
  } else {
    setenv(name, value, 1);
  }
}

// In the child. Returns only if there is nothing to run.
void become(char** command, const char* preload) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  set_or_unset("LD_PRELOAD", preload);
  if (getenv("LOFT_HOLD_MS") != nullptr) {
    char pid[24];
    snprintf(pid, sizeof(pid), "%d", static_cast<int>(getpid()));
    setenv("LOFT_HOLD_PID", pid, 1);
  }
  execvp(command[0], command);
}

void report(int out, int status, long long wall, const rusage& usage, long long instructions,
            long long cycles) {
  dprintf(out, "done %d %lld %lld %lld %ld %ld %ld %ld %lld %lld\n", status, wall,
          microseconds(usage.ru_utime), microseconds(usage.ru_stime), usage.ru_maxrss,
          usage.ru_minflt, usage.ru_majflt, usage.ru_nvcsw, instructions, cycles);
}

// Until the caller closes its end: meanwhile it looks for processes that the command left behind.
void wait_for_end_of(int gate) {
  char byte;
  while (read(gate, &byte, 1) > 0 || errno == EINTR) errno = 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) {
    fputs("loft-launch: a part of `loft compare`, not to be started by hand\n", stderr);
    return 2;
  }
  const int out = atoi(argv[1]);
  const int gate = atoi(argv[2]);
  const char* preload = argv[3];
  const bool counting = strcmp(argv[4], "1") == 0;
  // A caller that is killed takes the command along.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  fcntl(gate, F_SETFD, FD_CLOEXEC);
  fcntl(out, F_SETFD, FD_CLOEXEC);

  const int instructions = counting ? count(PERF_COUNT_HW_INSTRUCTIONS) : -ENODATA;
  const int cycles = counting ? count(PERF_COUNT_HW_CPU_CYCLES) : -ENODATA;
  const long long started = now();
  const pid_t child = fork();
  if (child == 0) {
    become(argv + 5, preload);
    dprintf(out, "exec %d\n", errno);
    _exit(127);
  }
  int status = 0;
  rusage usage;
  memset(&usage, 0, sizeof(usage));
  pid_t ended = -1;
  if (child > 0) {
    do {
      ended = wait4(child, &status, 0, &usage);
    } while (ended < 0 && errno == EINTR);
  }
  const long long wall = now() - started;
  if (ended < 0) {
    dprintf(out, "exec %d\n", errno);
  } else {
    report(out, status, wall, usage, counted(instructions), counted(cycles));
  }
  wait_for_end_of(gate);
  return 0;
}
