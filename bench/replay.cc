// The calls of a real program, recorded once by `loft record` and made again: the same under every
// allocator, thread by thread, with the same hand-overs (python/native/trace/player.h).
//
// Source: the programs of bench/recordings.toml; tools/recordings.py makes the plans, which lie
// beside this program. An operation is one call. The peak memory is what the process has of its
// own where most was alive and at two hundred points besides: the plan and the tables are not among
// it. What an object holds is checked before it is freed.
#include "../python/native/trace/player.h"
#include "common.h"

namespace {

std::string path_of(const std::string& plan) {
  if (plan.find('/') != std::string::npos) return plan;
  char path[4096];
  ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) bench::fail("cannot find this program's own path");
  std::string self(path, static_cast<size_t>(length));
  return self.substr(0, self.rfind('/') + 1) + plan + ".plan";
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  std::string plan = arguments.word("plan", "perl");
  uint64_t window = arguments.number("window", 1000, 0);
  arguments.finish();

  static trace::Player player;
  std::string path = path_of(plan);
  if (const char* why = player.open_plan(path.c_str())) {
    bench::fail("%s: %s; tools/recordings.py makes it", path.c_str(), why);
  }
  cpu_set_t all;
  CPU_ZERO(&all);
  sched_getaffinity(0, sizeof all, &all);
  bool several = player.header().threads > 1;
  bench::Team team;
  trace::Played played = {};
  team.run_here([&] {
    // Its threads run where the system puts them.
    if (several) sched_setaffinity(0, sizeof all, &all);
    played = player.play(window, trace::Touch::kPages);
    if (several) bench::pin(team.cpu_of(0));
  });
  const trace::Counts& counts = played.counts;
  if (counts.damaged + counts.dirty + counts.unaligned + counts.failed != 0) {
    bench::fail("%" PRIu64 " objects damaged, %" PRIu64 " not zero, %" PRIu64
                " not aligned, %" PRIu64 " refused",
                counts.damaged, counts.dirty, counts.unaligned, counts.failed);
  }
  uint64_t peak = played.end_kib;
  uint64_t live = 0;
  for (uint64_t i = 0; i < player.header().samples; i++) {
    peak = std::max(peak, player.sample(i).own_kib);
    live = std::max(live, player.sample(i).live_bytes);
  }
  bench::Result result("replay", played.seconds, player.header().calls, team,
                       played.user + played.system, peak);
  result.live(live).number("plan_threads", static_cast<double>(player.header().threads));
  // Several wait for one another.
  if (several) result.word("mode", "waiting");
  result.print();
}
