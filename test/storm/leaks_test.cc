// The search for what nothing points to reads what was written, and passes over address space that
// never was.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "inspect/snapshot.h"
#include "os/os.h"
#include "profile/samples.h"
#include "profile/site.h"
#include "stats/lost.h"
#include "storm/support.h"

namespace storm {
namespace {

namespace inspect = loft::inspect;
namespace profile = loft::profile;

constexpr size_t kReserved = size_t{8} << 30;
constexpr size_t kFew = size_t{1} << 20;

uint64_t lost_objects() {
  uint64_t sum = 0;
  for (const profile::Site* s = profile::newest_site(); s != nullptr; s = s->older) {
    sum += inspect::figures_of(*s, profile::Moment::kLeaks).used_objects;
  }
  return sum;
}

inspect::LookedAt search() {
  inspect::LookedAt looked_at = {};
  EXPECT_TRUE(loft::count_leaks(&looked_at));
  return looked_at;
}

// Objects whose addresses are kept in an inverted form, which is none of a pointer.
std::vector<uintptr_t> make_inverted(size_t count) {
  std::vector<uintptr_t> all;
  for (size_t i = 0; i < count; ++i) {
    all.push_back(~reinterpret_cast<uintptr_t>(loft_calloc(1, 64)));
  }
  return all;
}

void write_at(uintptr_t* words, const std::vector<uintptr_t>& inverted) {
  for (const uintptr_t word : inverted) *words++ = ~word;
}

class Leaks : public Storm {};

TEST_F(Leaks, UntouchedAddressSpaceIsNotRead) {
  in_child([] {
    constexpr size_t kObjects = 1000;
    ASSERT_EQ(loft_option_set("sample_bytes", "1"), 0);
    ASSERT_EQ(loft_option_set("profile", "on"), 0);
    const std::vector<uintptr_t> inverted = make_inverted(kObjects);
    const inspect::LookedAt before = search();
    // What calls have left on the stack may name a few.
    EXPECT_GT(lost_objects(), kObjects / 2);

    void* const reserved = mmap(nullptr, kReserved, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED) GTEST_SKIP() << "the system reserves no address space";
    madvise(reserved, kReserved, MADV_NOHUGEPAGE);
    auto* const words = static_cast<uintptr_t*>(reserved);
    const size_t far = kReserved / sizeof(uintptr_t);
    words[far / 2 + 77] = 1;
    write_at(words + far - kObjects, inverted);
    inspect::LookedAt after = search();
    EXPECT_EQ(lost_objects(), 0u) << "the end of it names them all";
    EXPECT_LT(after.read, before.read + kFew);
    EXPECT_GE(after.passed_over, kReserved - kFew);

    // So is a large object of loft's own that is mostly untouched.
    auto* const large = static_cast<uintptr_t*>(loft_malloc(kReserved));
    if (large == nullptr) return;  // a limit
    write_at(large + far / 3, inverted);
    std::memset(words + far - kObjects, 0, kObjects * sizeof(uintptr_t));
    words[0] = reinterpret_cast<uintptr_t>(large);
    after = search();
    EXPECT_EQ(lost_objects(), 0u);
    EXPECT_LT(after.read, before.read + 2 * kFew);
    EXPECT_GE(after.passed_over, 2 * (kReserved - kFew));
  });
}

}  // namespace
}  // namespace storm
