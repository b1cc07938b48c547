// A fork may stop a thread after any instruction, and the child takes over what its bins hold
// (bins::inherit). So after each instruction of what changes a bin, the bin must be what the child
// believes. The processor's trap flag stops this thread there.
#include <gtest/gtest.h>
#include <signal.h>
#include <ucontext.h>

#include <algorithm>
#include <vector>

#include "cache/arrays.h"
#include "cache/bins.h"
#include "malloc/allocate.h"
#include "unit/support.h"

namespace loft {
namespace {

#if defined(__x86_64__)

constexpr size_t kForkedSize = 512;
constexpr greg_t kTrapFlag = 0x100;

bool stepping = false;
unsigned looks = 0;
void (*look)() = nullptr;

void on_trap(int, siginfo_t*, void* context) {
  greg_t& flags = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL];
  flags = stepping ? flags | kTrapFlag : flags & ~kTrapFlag;
  if (!stepping) return;
  ++looks;
  look();
}

// Looks after each instruction of `change`. Returns how often.
template <class Change>
unsigned after_each_instruction(void (*then)(), Change&& change) {
  struct sigaction before;
  struct sigaction action = {};
  action.sa_sigaction = on_trap;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, &before);
  look = then;
  looks = 0;
  stepping = true;
  raise(SIGTRAP);
  change();
  stepping = false;
  raise(SIGTRAP);
  sigaction(SIGTRAP, &before, nullptr);
  return looks;
}

// What the looks compare with. No containers that allocate: a look interrupts anything.
struct Known {
  void** slots;
  unsigned capacity;
};
Known arrays[2];  // the bin's array is one of these
void* freed[1024];
unsigned freed_count = 0;
unsigned wrong_arrays = 0;
unsigned wrong_objects = 0;

void look_at_bin() {
  const SizeClass c = class_of(kForkedSize);
  const BinState& state = self->states[c];
  void** slot = self->bins[c].top();
  for (; *slot != nullptr; --slot) {
    if (std::find(freed, freed + freed_count, *slot) == freed + freed_count) ++wrong_objects;
  }
  if (slot != state.slots) return;
  for (const Known& known : arrays) {
    if (known.slots == slot && known.capacity != state.capacity) ++wrong_arrays;
  }
}

class ForkOrder : public testing::Test {
 protected:
  // A bin that holds some objects, and may grow.
  void SetUp() override {
    std::vector<void*> objects;
    for (int i = 0; i < 100; ++i) objects.push_back(allocate(kForkedSize));
    for (void* p : objects) deallocate(p);
    const SizeClass c = class_of(kForkedSize);
    const unsigned held = bins::count(self, c);
    ASSERT_GT(held, 2u);
    arrays[0] = {self->states[c].slots, self->states[c].capacity};
    arrays[1] = {nullptr, 0};
    freed_count = held;
    std::copy(arrays[0].slots + 1, arrays[0].slots + 1 + held, freed);
    wrong_arrays = wrong_objects = 0;
  }
};

TEST_F(ForkOrder, AnExchangeForAnotherArrayAndBack) {
  const SizeClass c = class_of(kForkedSize);
  const unsigned held = bins::count(self, c);
  arrays[1] = {bins::make_array(arrays[0].capacity), arrays[0].capacity};
  const unsigned stepped = after_each_instruction(look_at_bin, [&] {
    bins::exchange(self, c, arrays[1].slots, 0);
    bins::exchange(self, c, arrays[0].slots, held);
  });
  EXPECT_GT(stepped, 20u);
  EXPECT_EQ(wrong_arrays, 0u);
  EXPECT_EQ(wrong_objects, 0u);
  bins::release_array_of(arrays[1].slots, arrays[1].capacity);
}

TEST_F(ForkOrder, Growth) {
  const SizeClass c = class_of(kForkedSize);
  bool grown = false;
  const unsigned stepped =
      after_each_instruction(look_at_bin, [&] { grown = bins::grow(self, c); });
  EXPECT_TRUE(grown);
  EXPECT_GT(stepped, 20u);
  EXPECT_EQ(wrong_arrays, 0u);
  EXPECT_EQ(wrong_objects, 0u);
}

TEST_F(ForkOrder, PopsAndPushes) {
  void* objects[2] = {};
  const unsigned stepped = after_each_instruction(look_at_bin, [&] {
    for (void*& p : objects) p = allocate(kForkedSize);
    for (void* p : objects) deallocate(p);
  });
  EXPECT_GT(stepped, 20u);
  EXPECT_EQ(wrong_arrays, 0u);
  EXPECT_EQ(wrong_objects, 0u);
}

#endif

}  // namespace
}  // namespace loft
