// What malloc_trim(0) and a tick of an idle heap cost beside the addresses that are in use.
//
// Source: stress-ng's malloc stressor, which trims after every other free. An allocator that walks
// what it has of addresses then spends its time there. Objects of 1 GiB are allocated, and never
// touched, until 1, 64 and 1024 GiB are in use; at each, a trim follows another one, so that there
// is nothing to give back, and calls that make an allocator look after itself come after a while.
// A child process does it; this process single-steps these calls with ptrace and counts their
// instructions, which are the same on any machine. An operation is one instruction. Allocators look
// after themselves in one call of several, so the longest of a few is the tick.
#include "common.h"

#if !defined(__x86_64__)
int main() { bench::fail("only x86-64 is supported"); }
#else

#include <malloc.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

namespace {

constexpr size_t kGib = size_t{1} << 30;
// Longer than what threads keep, but a small part of what allocators keep.
constexpr size_t kOther = size_t{8} << 20;
// Longer than the interval at which any of the allocators looks after itself.
constexpr useconds_t kWhile = 150'000;
// In so many pairs of malloc and free, each of the allocators looks after itself once.
constexpr int kCallsPerTick = 16;

void stop_here() { asm volatile("int3" : : : "memory"); }

// The child: what is to be counted stands between two stops.
[[noreturn]] void child(const std::vector<uint64_t>& gibs) {
  ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
  uint64_t used = 0;
  for (uint64_t gib : gibs) {
    for (; used < gib; used++) bench::allocate(kGib - kOther);
    for (int i = 0; i < 4; i++) malloc_trim(0);
    stop_here();
    malloc_trim(0);
    stop_here();
    // What has been free for long is gone: the allocator has nothing to do.
    for (int i = 0; i < 7; i++) {
      bench::release(bench::allocate(kOther));
      usleep(kWhile);
    }
    for (int i = 0; i < kCallsPerTick; i++) {
      stop_here();
      bench::release(bench::allocate(kOther));
      stop_here();
    }
  }
  _exit(0);
}

void await(pid_t pid) {
  int status;
  if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) bench::fail("the child ended early");
  if (WSTOPSIG(status) != SIGTRAP) bench::fail("the child got signal %d", WSTOPSIG(status));
}

void run(pid_t pid) {
  if (ptrace(PTRACE_CONT, pid, nullptr, nullptr) != 0) bench::fail("cannot continue the child");
  await(pid);
}

bool is_at_stop(pid_t pid) {
  user_regs_struct registers;
  if (ptrace(PTRACE_GETREGS, pid, nullptr, &registers) != 0) bench::fail("cannot read registers");
  return (ptrace(PTRACE_PEEKTEXT, pid, reinterpret_cast<void*>(registers.rip), 0) & 0xFF) == 0xCC;
}

// From the stop where the child is to the next.
uint64_t count(pid_t pid) {
  uint64_t steps = 0;
  for (; !is_at_stop(pid); steps++) {
    if (ptrace(PTRACE_SINGLESTEP, pid, nullptr, nullptr) != 0) bench::fail("cannot step the child");
    await(pid);
  }
  run(pid);
  return steps;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t most = arguments.number("gib", 1024, 1, 4096);
  arguments.finish();
  std::vector<uint64_t> gibs;
  for (uint64_t gib : {uint64_t{1}, uint64_t{64}, uint64_t{1024}}) {
    if (gib <= most) gibs.push_back(gib);
  }

  bench::Team team;
  uint64_t steps = 0;
  std::string trims = "[";
  std::string ticks = "[";
  double seconds = team.run_here([&] {
    pid_t pid = fork();
    if (pid < 0) bench::fail("fork failed");
    if (pid == 0) child(gibs);
    await(pid);
    const auto add_to = [&](std::string& list, int calls) {
      uint64_t longest = 0;
      for (int i = 0; i < calls; i++) {
        if (steps != 0) run(pid);
        uint64_t instructions = count(pid);
        steps += instructions;
        longest = std::max(longest, instructions);
      }
      list += (list == "[" ? "" : ", ") + std::to_string(longest);
    };
    for (size_t i = 0; i < gibs.size(); i++) {
      add_to(trims, 1);
      add_to(ticks, kCallsPerTick);
    }
    int status;
    ptrace(PTRACE_CONT, pid, nullptr, nullptr);
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      bench::fail("the child did not end well");
    }
  });
  bench::Result("trims", seconds, steps, team)
      .json("trim_instructions", trims + "]")
      .json("tick_instructions", ticks + "]")
      .print();
}

#endif
