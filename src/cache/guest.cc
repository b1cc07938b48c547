#include "cache/guest.h"

namespace loft::guest {

namespace {

template <auto kFunction, class... Values>
void call_each(Values... values) {
  for (unsigned i = 0; i < guest_count; ++i) {
    if (auto* const function = guests[i]->*kFunction; function != nullptr) function(values...);
  }
}

template <auto kFunction, class... Values>
size_t sum_of(Values... values) {
  size_t sum = 0;
  for (unsigned i = 0; i < guest_count; ++i) {
    if (auto* const function = guests[i]->*kFunction; function != nullptr)
      sum += function(values...);
  }
  return sum;
}

template <auto kFunction, class... Values>
bool do_all(Values... values) {
  bool is_done = true;
  for (unsigned i = 0; i < guest_count; ++i) {
    auto* const function = guests[i]->*kFunction;
    if (function != nullptr) is_done = function(values...) && is_done;
  }
  return is_done;
}

}  // namespace

void join(ThreadCache* thread) { call_each<&Guest::join>(thread); }
void review(ThreadCache* thread) { call_each<&Guest::review>(thread); }
void empty_slow(ThreadCache* thread) { call_each<&Guest::empty>(thread); }
void inherit(ThreadCache* dead) { call_each<&Guest::inherit>(dead); }
void begin_child(ThreadCache* thread) { call_each<&Guest::begin_child>(thread); }
size_t held(const ThreadCache* thread, SizeClass c) { return sum_of<&Guest::held>(thread, c); }
size_t held_in_runs(const ThreadCache* thread) { return sum_of<&Guest::held_in_runs>(thread); }
void visit_held(const ThreadCache* thread, void (*visit)(void* context, const void* p),
                void* context) {
  call_each<&Guest::visit_held>(thread, visit, context);
}
void lock(LockStep step) { call_each<&Guest::lock>(step); }
void begin_looks() { call_each<&Guest::begin_looks>(); }
size_t purge() { return sum_of<&Guest::purge>(); }

// In the order opposite to that of lock.
void unlock(LockStep step, bool child) {
  for (unsigned i = guest_count; i-- != 0;) {
    if (guests[i]->unlock != nullptr) guests[i]->unlock(step, child);
  }
}

bool look(size_t bytes) { return do_all<&Guest::look>(bytes); }
bool purge_idle(unsigned ticks) { return do_all<&Guest::purge_idle>(ticks); }

}  // namespace loft::guest
