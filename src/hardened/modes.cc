#include "hardened/modes.h"

#include "hardened/guarded.h"
#include "hardened/quarantine.h"
#include "hardened/scan.h"
#include "slab/apart.h"

namespace loft::hardened {

namespace {

void visit_held(const ThreadCache* thread, void (*visit)(void* context, const void* p),
                void* context) {
  for_each(thread, [=](const void* p) { visit(context, p); });
}

void lock(LockStep step) {
  if (step != LockStep::kAfterHeaps) return;
  large::prepare_fork_of_guarded();
  slab::apart::prepare_fork();
}

void unlock(LockStep step, bool child) {
  if (step != LockStep::kAfterHeaps) return;
  slab::apart::finish_fork(child);
  large::finish_fork_of_guarded(child);
  if (child) forget_scan();
}

size_t purge() {
  large::empty_guarded();
  return 0;
}

}  // namespace

// In a fork's child, the order in which cells are handed out is another one than the parent's.
constinit const Guest guest = {
    .empty = empty,
    .inherit = empty,
    .begin_child = renew_random,
    .held = held,
    .held_in_runs = held_in_runs,
    .visit_held = visit_held,
    .lock = lock,
    .unlock = unlock,
    .look = scan,
    .begin_looks = restart_scan,
    .purge = purge,
};

}  // namespace loft::hardened
