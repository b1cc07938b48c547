// Start-up: spawns the hello program some hundred times and reports the time from spawn to exit,
// its peak memory and the number of its system calls.
//
// Source: what users of LD_PRELOAD ask for first: what it costs a program that does nothing. Run
// under LD_PRELOAD it passes that on to hello. System calls are counted with ptrace, from exec to
// exit. An operation is one start.
#include <spawn.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "common.h"

extern char** environ;

namespace {

std::string beside_this_program(const char* name) {
  char path[4096];
  ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) bench::fail("cannot find this program's own path");
  path[length] = '\0';
  std::string directory(path);
  return directory.substr(0, directory.rfind('/') + 1) + name;
}

void start_once(const std::string& hello, int null) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, null, STDOUT_FILENO);
  char* const arguments[] = {const_cast<char*>(hello.c_str()), nullptr};
  pid_t pid;
  int status;
  if (posix_spawn(&pid, hello.c_str(), &actions, nullptr, arguments, environ) != 0 ||
      waitpid(pid, &status, 0) != pid || status != 0) {
    bench::fail("%s did not run", hello.c_str());
  }
  posix_spawn_file_actions_destroy(&actions);
}

uint64_t peak_kib(const std::string& hello) {
  FILE* pipe = popen((hello + " --memory").c_str(), "r");
  char greeting[16];
  uint64_t peak = 0;
  if (pipe == nullptr || std::fscanf(pipe, "%15s %" SCNu64, greeting, &peak) != 2 ||
      pclose(pipe) != 0 || std::strcmp(greeting, "hello") != 0) {
    bench::fail("%s did not say its memory", hello.c_str());
  }
  return peak;
}

// 0 where ptrace is not allowed.
uint64_t system_calls(const std::string& hello, int null) {
  pid_t pid = fork();
  if (pid < 0) bench::fail("fork failed");
  if (pid == 0) {
    dup2(null, STDOUT_FILENO);
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(77);
    execl(hello.c_str(), hello.c_str(), nullptr);
    _exit(1);
  }
  int status;
  waitpid(pid, &status, 0);
  if (WIFEXITED(status)) return 0;
  ptrace(PTRACE_SETOPTIONS, pid, nullptr, PTRACE_O_TRACESYSGOOD);
  uint64_t stops = 0;
  for (;;) {
    if (ptrace(PTRACE_SYSCALL, pid, nullptr, nullptr) != 0) return 0;
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) || WIFSIGNALED(status)) break;
    if (WIFSTOPPED(status) && WSTOPSIG(status) == (SIGTRAP | 0x80)) stops++;
  }
  // Each call stops on entry and on exit, but the last, which does not return; the first stop is
  // the exit from exec.
  return stops / 2;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t starts = arguments.number("starts", 400, 1, 1'000'000);
  arguments.finish();

  std::string hello = beside_this_program("hello");
  int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  bench::Team team;
  std::vector<double> each(starts);
  double seconds = team.run_here([&] {
    start_once(hello, null);
    for (double& t : each) {
      double start = bench::now();
      start_once(hello, null);
      t = bench::now() - start;
    }
  });
  std::sort(each.begin(), each.end());
  double sum = 0;
  for (double t : each) sum += t;
  uint64_t peak = peak_kib(hello);
  uint64_t calls = system_calls(hello, null);
  bench::Result("startup", seconds, starts, team)
      .number("mean_start_ms", sum / static_cast<double>(starts) * 1e3)
      .number("median_start_ms", each[starts / 2] * 1e3)
      .number("hello_peak_rss_kib", static_cast<double>(peak))
      .number("hello_system_calls", static_cast<double>(calls))
      .word("mode", "waiting")
      .print();
}
