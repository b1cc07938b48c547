// A clock in the place of libc's, for a program under loft: it waits for time to pass by setting
// the clock forward, so that nothing depends on how fast the machine is. The program is linked as
// if it were a part of libc (AS_LIBC), or loft asks libc's own clock.
#pragma once

#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_llong passed_ns;

int clock_gettime(clockid_t clock, struct timespec* time) {  // time: the clock in its place
  const long result = syscall(SYS_clock_gettime, clock, time);
  const long long ns = time->tv_nsec + passed_ns;
  time->tv_sec += ns / 1000000000;
  time->tv_nsec = ns % 1000000000;
  return (int)result;
}

void pass_time(long milliseconds) { passed_ns += milliseconds * 1000000LL; }
