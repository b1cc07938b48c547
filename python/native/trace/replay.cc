// loft-replay: carries out a plan of loft-trace's under the allocator that is preloaded.
//
//   loft-replay PLAN WINDOW ends|pages|all
//
// Prints what it cost as one line of JSON. Exits with 3 if the allocator has damaged an object.
#include "player.h"

namespace {

using Number = unsigned long long;

void print(const trace::Player& player, const trace::Played& played) {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  dprintf(1,
          "{\"seconds\": %.9f, \"user\": %.6f, \"system\": %.6f, \"minor_faults\": %llu, "
          "\"major_faults\": %llu, \"sleeps\": %llu, \"calls\": %llu, ",
          played.seconds, played.user, played.system, static_cast<Number>(played.minor_faults),
          static_cast<Number>(played.major_faults), static_cast<Number>(played.sleeps),
          static_cast<Number>(player.header().calls));
  const trace::Counts& counts = played.counts;
  dprintf(1,
          "\"damaged\": %llu, \"dirty\": %llu, \"failed\": %llu, \"succeeded\": %llu, "
          "\"unaligned\": %llu, ",
          static_cast<Number>(counts.damaged), static_cast<Number>(counts.dirty),
          static_cast<Number>(counts.failed), static_cast<Number>(counts.succeeded),
          static_cast<Number>(counts.unaligned));
  dprintf(1,
          "\"start_kib\": %llu, \"end_kib\": %llu, \"max_rss_kib\": %ld, \"table_kib\": %llu, "
          "\"samples\": [",
          static_cast<Number>(played.start_kib), static_cast<Number>(played.end_kib),
          usage.ru_maxrss, static_cast<Number>(player.table_bytes() / 1024));
  for (uint64_t i = 0; i < player.header().samples; i++) {
    const trace::Sampled& sample = player.sample(i);
    dprintf(1, "%s[%llu, %llu, %llu]", i == 0 ? "" : ", ", static_cast<Number>(sample.ticket),
            static_cast<Number>(sample.live_bytes), static_cast<Number>(sample.own_kib));
  }
  dprintf(1, "]}\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    dprintf(2, "loft-replay: a part of `loft replay`, not to be started by hand\n");
    return 2;
  }
  trace::Player player;
  if (const char* why = player.open_plan(argv[1])) {
    dprintf(2, "%s\n", why);
    return 1;
  }
  const trace::Touch touch = strcmp(argv[3], "ends") == 0    ? trace::Touch::kEnds
                             : strcmp(argv[3], "pages") == 0 ? trace::Touch::kPages
                                                             : trace::Touch::kAll;
  const trace::Played played = player.play(strtoull(argv[2], nullptr, 10), touch);
  print(player, played);
  const trace::Counts& counts = played.counts;
  return counts.damaged + counts.dirty + counts.unaligned == 0 ? 0 : 3;
}
