// The lock of the system floor under every interleaving, with the kernel's sleeping queue modelled:
// one holder at a time, what a holder wrote is seen by the next, nobody sleeps for ever.
#include "os/lock.h"

#include <new>

#include "engine.h"

namespace loft::os {

void wait_on_word(const void* word, uint32_t expected) { model::wait_on_word(word, expected); }
void wake_one(const void* word) { model::wake_one(word); }
void pause_briefly() {}

}  // namespace loft::os

namespace {

using loft::os::Lock;

alignas(Lock) char memory[sizeof(Lock)];
Lock& lock() { return *std::launder(reinterpret_cast<Lock*>(memory)); }
unsigned count;

void set_up() {
  new (memory) Lock;
  count = 0;
}

void inside() {
  model::plain_read(&count);
  const unsigned before = count;
  model::plain_write(&count);
  count = before + 1;
}

void take() {
  lock().lock();
  inside();
  lock().unlock();
}
void try_to_take() {
  if (!lock().try_lock()) return;
  inside();
  lock().unlock();
}
void take_twice() {
  take();
  take();
}

std::function<void()> finish(unsigned least, unsigned most) {
  return [=] {
    model::check(count >= least && count <= most, "an acquisition was lost");
    model::check(lock().try_lock(), "the lock is held by nobody");
  };
}

}  // namespace

int main(int argc, char** argv) {
  return model::explore_all(
      {{"two threads, twice each", set_up, {take_twice, take_twice}, finish(4, 4)},
       {"three threads", set_up, {take, take, take}, finish(3, 3)},
       {"two threads and one that tries", set_up, {take, take, try_to_take}, finish(2, 3)},
       {"four threads, two of them twice, few preemptions",
        set_up,
        {take_twice, take_twice, take, take},
        finish(6, 6),
        2}},
      argc, argv);
}
