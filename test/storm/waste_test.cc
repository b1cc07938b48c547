// What is said of waste, by samples, is what the survivors of a program waste, and it is said of
// those alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "inspect/snapshot.h"
#include "os/os.h"
#include "profile/poisson.h"
#include "profile/samples.h"
#include "profile/site.h"
#include "slab/slab.h"
#include "stats/lost.h"
#include "storm/support.h"

namespace storm {
namespace {

namespace inspect = loft::inspect;
namespace profile = loft::profile;

// A function for each site, in a section of its own: the linker tells where that begins and ends.
#define SITE(name)                                                 \
  extern "C" const char __start_##name[];                          \
  extern "C" const char __stop_##name[];                           \
  [[gnu::noinline, gnu::section(#name)]] void* name(size_t size) { \
    void* volatile p = loft_malloc(size);                          \
    return p;                                                      \
  }
SITE(passing_site)
SITE(keeping_site)
#undef SITE

// Of all stacks with a return address in [begin, end).
inspect::Figures counted_at(const char* from, const char* to) {
  inspect::Figures sum = {};
  for (const profile::Site* s = profile::newest_site(); s != nullptr; s = s->older) {
    const uintptr_t* const frames = s->frames();
    const auto is_here = [&](uintptr_t at) {
      return at > reinterpret_cast<uintptr_t>(from) && at <= reinterpret_cast<uintptr_t>(to);
    };
    if (std::none_of(frames, frames + s->depth, is_here)) continue;
    const inspect::Figures figures = inspect::figures_of(*s, profile::Moment::kLeaks);
    sum.used_objects += figures.used_objects;
    sum.used_bytes += figures.used_bytes;
  }
  return sum;
}

// Where an object lies, or would lie were it not sampled.
using Locations = std::vector<void*>;

Locations places_of_objects() {
  Locations all;
  const auto add = [](void* context, void* object, size_t) {
    if (loft::pagemap.of(object).is_slab()) static_cast<Locations*>(context)->push_back(object);
    return 0;
  };
  loft_visit_objects(add, &all);
  profile::visit_kept(
      [](void* context, void* place) { static_cast<Locations*>(context)->push_back(place); }, &all);
  return all;
}

struct Waste {
  size_t objects;
  double bytes;
};

Waste exact_waste() {
  std::map<const loft::Slab*, size_t> objects;
  for (void* p : places_of_objects()) ++objects[loft::slab::at(loft::pagemap.of(p))];
  Waste all = {};
  for (const auto& [slab, count] : objects) {
    all.objects += count;
    const size_t resident = slab->charged_pages() * loft::os::page_size();
    all.bytes += static_cast<double>(resident - std::min(resident, count * slab->shape().size));
  }
  return all;
}

constexpr size_t kSize = 100;
constexpr uint64_t kWasteMean = 256;

// One object in 64 stays.
std::vector<void*> keep_few(size_t count) {
  std::vector<void*> passing;
  std::vector<void*> kept;
  for (size_t i = 0; i < count; ++i) {
    if (i % 64 == 0) {
      kept.push_back(keeping_site(kSize));
    } else {
      passing.push_back(passing_site(kSize));
    }
  }
  for (void* p : passing) loft_free(p);
  return kept;
}

class WasteStorm : public Storm {
 protected:
  static void set(const char* option, const char* value) {
    ASSERT_EQ(loft_option_set(option, value), 0);
  }
  static void begin(uint64_t mean = kWasteMean) {
    set("sample_bytes", std::to_string(mean).c_str());
    set("profile", "waste");
  }
};

TEST_F(WasteStorm, IsThatOfTheSurvivors) {
  in_child([] {
    begin();
    std::vector<void*> kept = keep_few(scaled(200'000));
    const Waste exact = exact_waste();
    EXPECT_EQ(exact.objects, kept.size());
    ASSERT_TRUE(loft::count_waste());
    const inspect::Figures found = counted_at(__start_keeping_site, __stop_keeping_site);
    // Six standard deviations of the number of samples; shares differ by as much again.
    const double chance = 65536 / static_cast<double>(profile::weight_of(112, kWasteMean));
    const double n = static_cast<double>(kept.size());
    const double allowed = 12 * std::sqrt((1 - chance) / chance / n);
    EXPECT_NEAR(static_cast<double>(found.used_bytes) / exact.bytes, 1, allowed);
    EXPECT_NEAR(static_cast<double>(found.used_objects) / n, 1, allowed);
    EXPECT_GT(exact.bytes, 20.0 * kSize * n);
    EXPECT_EQ(counted_at(__start_passing_site, __stop_passing_site).used_objects, 0u);
    for (void* p : kept) loft_free(p);
    ASSERT_TRUE(loft::count_waste());
    EXPECT_EQ(counted_at(__start_keeping_site, __stop_keeping_site).used_bytes, 0u);
  });
}

// The places that samples keep make the heap what it would be without them.
TEST_F(WasteStorm, IsThatOfAProgramThatIsNotSampled) {
  double bytes[2] = {};
  for (int profiled = 0; profiled < 2; ++profiled) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    in_child([&] {
      // Samples are pages: more of them would be more than stays resident once they are freed, and
      // the slabs' unused pages would be purged with them.
      if (profiled != 0) begin(4096);
      std::vector<void*> kept = keep_few(scaled(100'000));
      const double found = exact_waste().bytes;
      EXPECT_EQ(write(ends[1], &found, sizeof(found)), static_cast<ssize_t>(sizeof(found)));
      for (void* p : kept) loft_free(p);
    });
    EXPECT_EQ(read(ends[0], &bytes[profiled], sizeof(double)),
              static_cast<ssize_t>(sizeof(double)));
    close(ends[0]);
    close(ends[1]);
  }
  EXPECT_NEAR(bytes[1] / bytes[0], 1, 0.1);
}

TEST_F(WasteStorm, NothingStaysOfThePlaces) {
  in_child([] {
    begin();
    std::atomic<uint64_t> numbers{0};
    on_threads(4, [&](unsigned t) {
      uint64_t random = seed_for(t);
      std::vector<void*> mine;
      for (unsigned i = 0; i < scaled(20'000); ++i) {
        const size_t size = 16 + (advance(random) >> 33) % 3000;
        void* p = make(numbers++, size);
        if (i % 5 == 0) p = loft_realloc(p, size + (advance(random) >> 33) % 200);
        mine.push_back(p);
        if (mine.size() < 100) continue;
        for (void* object : mine) loft_free(object);
        mine.clear();
      }
      for (void* object : mine) loft_free(object);
    });
    set("profile", "off");
    EXPECT_EQ(profile::totals().live_samples, 0u);
    const loft_stats_t s = stats_at_rest();
    expect_identity(s);
    EXPECT_EQ(s.user_heap_bytes, 0u);
    EXPECT_EQ(s.allocated_bytes, 0u);
  });
}

}  // namespace
}  // namespace storm
