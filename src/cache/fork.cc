// fork: all locks are taken before it, so that every structure under a lock is whole in the child.
#include "cache/core.h"
#include "cache/idle.h"
#include "cache/lifecycle.h"
#include "heap/registry.h"
#include "heap/user_heap.h"
#include "os/os.h"
#include "os/stdio_lock.h"
#include "space/span.h"
#include "space/tails.h"

namespace loft {

namespace {

void prepare_fork() {
  os::lock_streams();
  idle::prepare_fork();
  core::prepare_fork();
  lifecycle::prepare_fork();
  registry::prepare_fork();
  UserHeap::prepare_fork();
  tails::prepare_fork();
  span::prepare_fork();
}

void finish_fork(bool child) {
  span::finish_fork(child);
  tails::finish_fork(child);
  UserHeap::finish_fork(child);
  registry::finish_fork(child);
  lifecycle::finish_fork(child);
  core::finish_fork(child);
  idle::finish_fork(child);
  os::unlock_streams(child);
}

void in_parent() { finish_fork(false); }

void in_child() {
  finish_fork(true);
  lifecycle::bury_the_dead();
}

__attribute__((constructor(101))) void register_fork_handlers() {
  os::on_fork(prepare_fork, in_parent, in_child);
}

}  // namespace

}  // namespace loft
