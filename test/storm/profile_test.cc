// The profile beside threads that allocate: what samples stand for is what was allocated, by site,
// size and thread; and nothing of it is left when all is freed.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <deque>
#include <string>

#include "inspect/snapshot.h"
#include "profile/poisson.h"
#include "profile/samples.h"
#include "profile/site.h"
#include "storm/support.h"

namespace storm {
namespace {

namespace inspect = loft::inspect;
namespace profile = loft::profile;

void set(const char* option, const char* value) { EXPECT_EQ(loft_option_set(option, value), 0); }

// A function for each site, in a section of its own: the linker tells where that begins and ends.
#define SITE(name, allocation)                          \
  extern "C" const char __start_##name[];               \
  extern "C" const char __stop_##name[];                \
  [[gnu::noinline, gnu::section(#name)]] void* name() { \
    void* volatile p = allocation;                      \
    return p;                                           \
  }
SITE(site_16, loft_malloc(16))
SITE(site_100, loft_malloc(100))
SITE(site_1000, loft_malloc(1000))
SITE(site_1030, loft_malloc(1030))
SITE(site_9000, loft_malloc(9000))
SITE(site_40000, loft_malloc(40000))
SITE(site_large, loft_malloc(5 << 20))
SITE(site_zeroed, loft_calloc(1, 5000))
SITE(site_aligned, loft_memalign(256, 256))
#undef SITE

struct Place {
  void* (*function)();
  const char* begin;
  const char* end;
  size_t size;
  size_t charged;  // the length in memory
};
#define PLACE(name, ...) {name, __start_##name, __stop_##name, __VA_ARGS__}
constexpr size_t kMean = 4096;
const std::array<Place, 9> kPlaces = {{
    PLACE(site_16, 16, 16),
    PLACE(site_100, 100, 112),
    PLACE(site_1000, 1000, 1024),
    PLACE(site_1030, 1030, 1280),
    PLACE(site_9000, 9000, 10240),
    PLACE(site_40000, 40000, 40960),
    PLACE(site_large, 5 << 20, 5 << 20),
    PLACE(site_zeroed, 5000, 5120),
    PLACE(site_aligned, 256, 256),
}};
#undef PLACE

// The figures of a place: of all stacks with a return address in its function.
inspect::Figures figures_at(const Place& place) {
  const auto begin = reinterpret_cast<uintptr_t>(place.begin);
  const auto end = reinterpret_cast<uintptr_t>(place.end);
  inspect::Figures sum = {};
  for (const profile::Site* s = profile::newest_site(); s != nullptr; s = s->older) {
    const uintptr_t* const frames = s->frames();
    if (std::none_of(frames, frames + s->depth,
                     [&](uintptr_t at) { return at > begin && at <= end; })) {
      continue;
    }
    const inspect::Figures figures = inspect::figures_of(*s, profile::Moment::kNow);
    sum.allocated_objects += figures.allocated_objects;
    sum.allocated_bytes += figures.allocated_bytes;
    sum.used_objects += figures.used_objects;
    sum.used_bytes += figures.used_bytes;
  }
  return sum;
}

// Six standard deviations: by chance once in five hundred million.
double allowed(const Place& place, double objects) {
  const double chance = -std::expm1(-static_cast<double>(place.charged) / kMean);
  return 6 * std::sqrt(objects * (1 - chance) / chance) + 1;
}

class Profile : public Storm {};

// Each thread works at all places in turn, keeps some objects, and makes pairs between: objects
// that a cache hands out again and again.
void work(unsigned thread, unsigned rounds, std::deque<void*>* kept) {
  for (unsigned round = 0; round < rounds; ++round) {
    const Place& place = kPlaces[(round + thread) % kPlaces.size()];
    if (place.size > (1 << 20) && round % 64 != 0) continue;
    for (unsigned i = 0; i < 3; ++i) loft_free(place.function());
    kept->push_back(place.function());
  }
}

TEST_F(Profile, StandsForWhatWasAllocated) {
  in_child([] {
    constexpr unsigned kThreads = 4;
    const unsigned rounds = scaled(9000);
    set("sample_bytes", std::to_string(kMean).c_str());
    set("profile", "on");
    std::array<std::deque<void*>, kThreads> kept;
    std::array<size_t, kPlaces.size()> pairs = {};
    for (unsigned t = 0; t < kThreads; ++t) {
      for (unsigned round = 0; round < rounds; ++round) {
        const size_t place = (round + t) % kPlaces.size();
        if (kPlaces[place].size <= (1 << 20) || round % 64 == 0) ++pairs[place];
      }
    }
    on_threads(kThreads, [&](unsigned t) { work(t, rounds, &kept[t]); });
    for (size_t i = 0; i < kPlaces.size(); ++i) {
      const Place& place = kPlaces[i];
      const inspect::Figures figures = figures_at(place);
      const double made = 4 * static_cast<double>(pairs[i]);
      const double live = static_cast<double>(pairs[i]);
      const auto bytes = static_cast<double>(place.size);
      EXPECT_NEAR(static_cast<double>(figures.allocated_objects), made, allowed(place, made)) << i;
      EXPECT_NEAR(static_cast<double>(figures.used_objects), live, allowed(place, live)) << i;
      EXPECT_NEAR(static_cast<double>(figures.used_bytes) / bytes, live, allowed(place, live)) << i;
    }
    expect_identity(stats());
    // Another thread frees all of it.
    on_threads(1, [&](unsigned) {
      for (auto& objects : kept) {
        for (void* p : objects) loft_free(p);
      }
    });
    for (const Place& place : kPlaces) EXPECT_EQ(figures_at(place).used_bytes, 0u);
    set("profile", "off");
  });
}

// The live bytes that the profile tells are those that the statistics tell and the program has.
TEST_F(Profile, AHundredThousandSamplesTellTheLiveBytes) {
  in_child([] {
    constexpr unsigned kThreads = 4;
    constexpr unsigned kRounds = 240;
    constexpr size_t kBetween = 256;
    // One length for each class, so that the statistics of small objects are exact, too.
    constexpr std::array<size_t, 6> kWhich = {0, 1, 2, 4, 5, 7};
    set("sample_bytes", std::to_string(kBetween).c_str());
    set("profile", "on");
    std::array<std::array<std::vector<void*>, kWhich.size()>, kThreads> made;
    on_threads(kThreads, [&](unsigned t) {
      for (unsigned round = 0; round < kRounds; ++round) {
        for (size_t i = 0; i < kWhich.size(); ++i) {
          const Place& place = kPlaces[kWhich[i]];
          // As many bytes of each, and each third object is freed at once.
          for (size_t n = 0; n < 40'000 / place.size; ++n) {
            made[t][i].push_back(place.function());
            if (n % 3 != 0) continue;
            loft_free(made[t][i].back());
            made[t][i].pop_back();
          }
        }
      }
    });
    // Another thread frees the half of it.
    on_threads(1, [&](unsigned) {
      for (auto& of_thread : made) {
        for (auto& objects : of_thread) {
          for (size_t i = objects.size() / 2; i < objects.size(); ++i) loft_free(objects[i]);
          objects.resize(objects.size() / 2);
        }
      }
    });
    const loft_stats_t s = stats_at_rest();
    expect_identity(s);
    double live = 0;
    double told = 0;
    double variance = 0;
    for (size_t i = 0; i < kWhich.size(); ++i) {
      const Place& place = kPlaces[kWhich[i]];
      const auto size = static_cast<double>(place.size);
      size_t objects = 0;
      for (const auto& of_thread : made) objects += of_thread[i].size();
      const double chance = -std::expm1(-static_cast<double>(place.charged) / kBetween);
      live += static_cast<double>(objects) * size;
      variance += static_cast<double>(objects) * size * size * (1 - chance) / chance;
      told += static_cast<double>(figures_at(place).used_bytes);
    }
    EXPECT_GT(profile::totals().live_samples, 100'000u);
    EXPECT_EQ(static_cast<double>(s.live_bytes), live);
    EXPECT_EQ(s.user_heap_bytes, 0u);
    const double deviations = std::fabs(told - live) / std::sqrt(variance);
    EXPECT_LT(deviations, 6);  // by chance once in five hundred million
    EXPECT_LT(6 * std::sqrt(variance), 0.1 * live);
    for (auto& of_thread : made) {
      for (auto& objects : of_thread) {
        for (void* p : objects) loft_free(p);
      }
    }
  });
}

TEST_F(Profile, PairsOfANewThreadAreSampled) {
  in_child([] {
    set("sample_bytes", "4K");
    set("profile", "on");
    // Nothing else is allocated in it.
    on_threads(1, [](unsigned) {
      for (int i = 0; i < 20'000; ++i) loft_free(site_100());
    });
    for (int i = 0; i < 20'000; ++i) loft_free(site_1000());
    EXPECT_NEAR(static_cast<double>(figures_at(kPlaces[1]).allocated_objects), 20'000,
                allowed(kPlaces[1], 20'000));
    EXPECT_NEAR(static_cast<double>(figures_at(kPlaces[2]).allocated_objects), 20'000,
                allowed(kPlaces[2], 20'000));
  });
}

TEST_F(Profile, EachAllocationIsASampleWhereTheMeanIsOne) {
  in_child([] {
    set("sample_bytes", "1");
    set("profile", "on");
    std::vector<void*> objects;
    for (const Place& place : kPlaces) objects.push_back(place.function());
    for (const Place& place : kPlaces) {
      EXPECT_EQ(figures_at(place).used_objects, 1u) << place.size;
      EXPECT_EQ(figures_at(place).used_bytes, place.size);
    }
    for (void* p : objects) loft_free(p);
    for (const Place& place : kPlaces) EXPECT_EQ(figures_at(place).used_objects, 0u);
  });
}

TEST_F(Profile, SampledObjectsAreLikeAnyOther) {
  in_child([] {
    set("sample_bytes", "1");
    set("profile", "on");
    uint64_t id = 0;
    for (const size_t size : {16u, 100u, 4096u, 33'000u, 1u << 20, 5u << 20}) {
      void* p = make(++id, size);
      ASSERT_NE(p, nullptr);
      EXPECT_GE(loft_malloc_usable_size(p), size);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 16, 0u);
      EXPECT_EQ(loft_object_start(static_cast<char*>(p) + size / 2), p);
      // Up, down, and up again beyond what a large object has.
      for (const size_t next : {size * 3, size + 1, size * 2 + 77, size_t{9} << 20, size}) {
        p = loft_realloc(p, next);
        ASSERT_NE(p, nullptr);
        ASSERT_TRUE(intact(p, id, size)) << next;
      }
      loft_free(p);
      for (const size_t alignment : {64u, 4096u, 1u << 21}) {
        void* const aligned = loft_memalign(alignment, size);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(aligned) % alignment, 0u);
        std::memset(aligned, 1, size);
        // What lies behind it has it move.
        void* const behind = loft_malloc(size_t{9} << 20);
        void* const moved = loft_aligned_realloc(aligned, alignment, size_t{40} << 20);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(moved) % alignment, 0u);
        loft_free(behind);
        loft_free(moved);
      }
      auto* const zeroed = static_cast<char*>(loft_calloc(size, 1));
      EXPECT_EQ(std::count(zeroed, zeroed + size, 0), static_cast<ptrdiff_t>(size));
      loft_free(zeroed);
    }
    EXPECT_EQ(profile::totals().live_samples, 0u);
    EXPECT_EQ(profile::totals().lost, 0u);
    EXPECT_EQ(profile::totals().in_use_bytes, 0u);
  });
}

TEST_F(Profile, BeginsAndEndsBesideThreadsAndForks) {
  in_child([] {
    set("sample_bytes", "2K");
    constexpr unsigned kThreads = 3;
    std::atomic<bool> done{false};
    std::atomic<uint64_t> made[kThreads] = {};
    const auto wait_for_more = [&] {
      for (const std::atomic<uint64_t>& each : made) {
        for (const uint64_t before = each; each < before + 100;) sched_yield();
      }
    };
    on_threads(kThreads + 1, [&](unsigned t) {
      if (t == kThreads) {
        for (unsigned round = 0; round < scaled(120); ++round) {
          set("profile", round % 2 == 0 ? "on" : "off");
          expect_identity(stats());
          if (round % 16 == 5) {
            in_child([] {
              void* const p = make(1, 100);
              EXPECT_EQ(check_and_free(p, 1, 100), 0u);
            });
          }
          wait_for_more();
        }
        done = true;
        return;
      }
      come_and_go(t, done, &made[t]);
    });
    set("profile", "off");
    EXPECT_EQ(profile::totals().live_samples, 0u);
    const loft_stats_t s = stats_at_rest();
    expect_identity(s);
    EXPECT_EQ(s.user_heap_bytes, 0u);
    EXPECT_EQ(s.allocated_bytes, 0u);  // nothing is lost on the way from bin to bin
  });
}

TEST_F(Profile, ReallocInPlaceKeepsWhatIsInUse) {
  in_child([] {
    set("sample_bytes", "4K");
    set("profile", "on");
    struct Step {
      const Place& place;
      size_t to;
      double objects;
    };
    for (const Step& step : {Step{kPlaces[2], 990, 20'000}, Step{kPlaces[5], 35'000, 400}}) {
      std::vector<void*> objects;
      for (int i = 0; i < step.objects; ++i) {
        objects.push_back(loft_realloc(step.place.function(), step.to));
      }
      const auto used = static_cast<double>(figures_at(step.place).used_bytes);
      EXPECT_NEAR(used / static_cast<double>(step.to), step.objects,
                  allowed(step.place, step.objects));
      for (void* p : objects) loft_free(p);
      EXPECT_EQ(figures_at(step.place).used_bytes, 0u);
    }
  });
}

TEST_F(Profile, IdleThreadsAreNoLessSampled) {
  in_child([] {
    set("sample_bytes", "4K");
    set("profile", "on");
    std::vector<void*> objects;
    for (int i = 0; i < 5000; ++i) {
      objects.push_back(site_1000());
      loft_idle_begin();
    }
    EXPECT_NEAR(static_cast<double>(figures_at(kPlaces[2]).used_objects), 5000,
                allowed(kPlaces[2], 5000));
    for (void* p : objects) loft_free(p);
  });
}

TEST_F(Profile, OptionsBesideForks) {
  in_child([] {
    set("sample_bytes", "8K");
    std::atomic<bool> done{false};
    on_threads(2, [&](unsigned t) {
      if (t == 0) {
        for (unsigned i = 0; !done; ++i) {
          set("profile", i % 2 == 0 ? "on" : "off");
          set("sample_bytes", i % 3 == 0 ? "8K" : "9K");
        }
        return;
      }
      for (unsigned i = 0; i < scaled(40); ++i) {
        in_child([] { set("profile", "on"); });
      }
      done = true;
    });
  });
}

TEST_F(Profile, KeepsThePeak) {
  in_child([] {
    set("sample_bytes", "1");
    set("profile", "on");
    std::vector<void*> objects;
    for (int i = 0; i < 1000; ++i) objects.push_back(site_1000());
    for (void* p : objects) loft_free(p);
    for (int i = 0; i < 10; ++i) objects[static_cast<size_t>(i)] = site_100();
    uint64_t at_peak = 0;
    for (const profile::Site* s = profile::newest_site(); s != nullptr; s = s->older) {
      at_peak += inspect::figures_of(*s, profile::Moment::kPeak).used_bytes;
    }
    EXPECT_GE(at_peak, 1000u * 1000 * 31 / 32);
    EXPECT_EQ(at_peak, profile::totals().peak_bytes);
  });
}

}  // namespace
}  // namespace storm
