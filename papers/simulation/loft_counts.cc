// loft's statistics, by the names that the papers' engines have for them (engine/engine.h).
#include "engine/engine.h"
#include "loft/loft.h"

engine::Counts engine::counts() {
  loft_stats_t stats{};
  stats.struct_size = sizeof(stats);
  loft_stats(&stats);
  Counts all;
  all.messages = stats.batch_messages;
  all.exchanges = stats.posts;
  all.forwarded = stats.forwards;
  all.locks = stats.locks_taken;
  all.lock_waits = stats.locks_waited_for;
  return all;
}
