// Starts a program under ptrace so that every run of it is the same: what counts its instructions,
// faults and bytes must not depend on the machine's mood.
//
// Addresses are not randomised, and the bytes that the system gives each process for its own random
// numbers are fixed. There are no huge pages, and the limit of the stack, by which the system
// places mappings, is always the same. Where the system refuses any of this, nothing is counted.
#ifndef LOFT_BENCH_TRACED_H_
#define LOFT_BENCH_TRACED_H_

#include <elf.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "common.h"

namespace bench {

inline constexpr rlim_t kTracedStack = 8 << 20;
inline constexpr uint64_t kTracedRandom = 0x5DEECE66D1CE4E5B;

// One line of /proc/PID/maps.
struct Mapping {
  uint64_t start = 0;
  uint64_t end = 0;
  bool executable = false;
  bool shared = false;
  std::string name{};  // a file's path, [stack] and such, or nothing
};

inline std::string proc_path(pid_t pid, const char* name) {
  return "/proc/" + std::to_string(pid) + "/" + name;
}

// False if this is no such line.
inline bool read_mapping(const char* line, Mapping& mapping) {
  char mode[8];
  char name[4096] = "";
  const int fields = std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %*s %*s %*s %4095[^\n]",
                                 &mapping.start, &mapping.end, mode, name);
  if (fields < 3) return false;
  mapping.executable = mode[2] == 'x';
  mapping.shared = mode[3] == 's';
  mapping.name = name;
  return true;
}

inline std::vector<Mapping> mappings_of(pid_t pid) {
  FILE* maps = std::fopen(proc_path(pid, "maps").c_str(), "re");
  if (maps == nullptr) fail("cannot read the mappings of %d", pid);
  std::vector<Mapping> found;
  char line[4352];
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    Mapping one;
    if (read_mapping(line, one)) found.push_back(one);
  }
  std::fclose(maps);
  return found;
}

inline uint64_t random_bytes_of(pid_t pid) {
  FILE* vector = std::fopen(proc_path(pid, "auxv").c_str(), "re");
  if (vector == nullptr) fail("cannot read the auxiliary vector of %d", pid);
  Elf64_auxv_t entry;
  uint64_t found = 0;
  while (std::fread(&entry, sizeof entry, 1, vector) == 1) {
    if (entry.a_type == AT_RANDOM) found = entry.a_un.a_val;
  }
  std::fclose(vector);
  if (found == 0) fail("the program has no random bytes");
  return found;
}

// The program stands before its first instruction, with the caller's environment but for what is
// preloaded.
inline pid_t start_traced(const std::vector<std::string>& command, const char* preload) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  // Each stop waits for two switches, and on a busy machine for others, unless root goes first.
  setpriority(PRIO_PROCESS, 0, -20);
  const pid_t pid = fork();
  if (pid < 0) fail("fork failed");
  if (pid == 0) {
    const int before = personality(0xffffffff);
    if (before < 0 || personality(static_cast<unsigned long>(before) | ADDR_NO_RANDOMIZE) < 0) {
      fail("the system does not let a program have fixed addresses (personality)");
    }
    const rlimit stack = {kTracedStack, RLIM_INFINITY};
    const rlimit lower = {kTracedStack, kTracedStack};
    if (setrlimit(RLIMIT_STACK, &stack) != 0 && setrlimit(RLIMIT_STACK, &lower) != 0) {
      fail("the limit of the stack cannot be set");
    }
    if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0) fail("huge pages cannot be switched off");
    if (preload != nullptr) setenv("LD_PRELOAD", preload, 1);
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) fail("ptrace is not allowed");
    execvp(words[0], words.data());
    fail("cannot run %s", words[0]);
  }
  int status;
  if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) fail("%s did not start", words[0]);
  const uint64_t random = random_bytes_of(pid);
  for (uint64_t offset : {0, 8}) {
    if (ptrace(PTRACE_POKEDATA, pid, reinterpret_cast<void*>(random + offset),
               reinterpret_cast<void*>(kTracedRandom + offset)) != 0) {
      fail("cannot write into the program");
    }
  }
  return pid;
}

}  // namespace bench

#endif  // LOFT_BENCH_TRACED_H_
