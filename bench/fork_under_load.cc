// One thread forks again and again while others allocate and free without pause; every child
// allocates, frees, looks at what it inherited, and exits.
//
// Source: what users of pre-forking servers and of subprocess-heavy tools ask for: a fork while
// another thread is inside the allocator must not leave the child with a lock that nobody holds. A
// child that hangs is ended by an alarm, and fails the program. The load frees its partner's
// objects too. An operation is one fork, with its child's life.
#include <sys/wait.h>

#include "common.h"

namespace {

constexpr uint64_t kInherited = 1000;

[[noreturn]] void child(bench::Table<uint64_t*>& inherited, uint64_t objects, unsigned limit) {
  alarm(limit);
  bench::Table<uint64_t*> mine(objects);
  for (uint64_t i = 0; i < objects; i++) {
    mine[i] = static_cast<uint64_t*>(bench::allocate(16 + i * 37 % 1000));
    *mine[i] = i;
  }
  for (uint64_t i = 0; i < kInherited; i++) {
    if (*inherited[i] != i) _exit(2);
    bench::release(inherited[i]);
  }
  for (uint64_t i = 0; i < objects; i++) {
    if (*mine[i] != i) _exit(3);
    bench::release(mine[i]);
  }
  _exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t forks = arguments.number("forks", 200, 1, 1'000'000);
  uint64_t workers = arguments.number("workers", 2, 1, 1000);
  uint64_t slots = arguments.number("slots", 10'000, 1, 10'000'000);
  uint64_t objects = arguments.number("objects", 1000, 1, 1'000'000);
  auto limit = static_cast<unsigned>(arguments.number("child-limit", 5, 1, 3600));
  arguments.finish();

  bench::Team team;
  bench::Table<uint64_t*> inherited(kInherited);
  for (uint64_t i = 0; i < kInherited; i++) {
    inherited[i] = static_cast<uint64_t*>(bench::allocate(16 + i % 1000));
    *inherited[i] = i;
  }
  // Shared by all workers, so that half of what one frees is another's.
  bench::Table<std::atomic<uint64_t*>> table(slots);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> replaced{0};
  std::vector<double> each(forks);
  double seconds = team.run(1 + workers, [&](size_t index) {
    if (index == 0) {
      for (double& t : each) {
        double start = bench::now();
        pid_t pid = fork();
        if (pid < 0) bench::fail("fork failed");
        if (pid == 0) child(inherited, objects, limit);
        t = bench::now() - start;
        int status;
        if (waitpid(pid, &status, 0) != pid) bench::fail("a child was lost");
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) bench::fail("a child hung");
        if (status != 0) bench::fail("a child ended with status %#x", status);
      }
      stop.store(true);
    } else {
      bench::Random random(index);
      uint64_t count = 0;
      for (; !stop.load(std::memory_order_relaxed); count++) {
        auto* p = static_cast<uint64_t*>(bench::allocate(random.between(16, 2000)));
        uint32_t at = random.below(static_cast<uint32_t>(slots));
        *p = at;
        p = table[at].exchange(p);
        if (p == nullptr) continue;
        if (*p != at) bench::fail("the object in slot %u was overwritten", at);
        bench::release(p);
      }
      replaced.fetch_add(count);
    }
  });
  for (uint64_t at = 0; at < slots; at++) {
    uint64_t* p = table[at].load();
    if (p == nullptr) continue;
    if (*p != at) bench::fail("the object in slot %" PRIu64 " was overwritten", at);
    bench::release(p);
  }
  for (uint64_t* p : inherited) bench::release(p);
  if (replaced == 0) bench::fail("the load did nothing");
  std::sort(each.begin(), each.end());
  bench::Result("fork_under_load", seconds, forks, team)
      .number("median_fork_us", each[forks / 2] * 1e6)
      .number("objects_replaced", static_cast<double>(replaced.load()))
      .word("mode", "waiting")
      .print();
}
