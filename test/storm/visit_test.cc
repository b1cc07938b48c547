// A visit finds what the program has and nothing else, wherever loft keeps what the program has
// not: in slabs, in caches of threads that wait or have ended, in batches, in messages of all
// forms.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <map>
#include <mutex>
#include <random>
#include <vector>

#include "storm/support.h"

namespace storm {
namespace {

using Objects = std::map<void*, size_t>;

Objects visited() {
  Objects found;
  const auto add = [](void* context, void* object, size_t usable) {
    EXPECT_TRUE(static_cast<Objects*>(context)->emplace(object, usable).second) << object;
    return 0;
  };
  const size_t visits = loft_visit_objects(add, &found);
  EXPECT_EQ(visits, found.size());
  return found;
}

// Each with its usable size.
Objects known(const std::vector<std::vector<void*>>& kept) {
  Objects all;
  for (const auto& some : kept) {
    for (void* p : some) all.emplace(p, loft_malloc_usable_size(p));
  }
  return all;
}

void expect_same(const Objects& found, const Objects& wanted) {
  size_t wrong = 0;
  for (const auto& [p, usable] : wanted) {
    const auto at = found.find(p);
    wrong += at == found.end() || at->second != usable ? 1 : 0;
  }
  EXPECT_EQ(wrong, 0u) << "objects of the program's that were not visited, or not as they are";
  EXPECT_EQ(found.size(), wanted.size());
}

class Visit : public Storm {
 protected:
  static void set(const char* option, const char* value) {
    ASSERT_EQ(loft_option_set(option, value), 0);
  }
};

size_t some_size(uint64_t& random) {
  const uint64_t kind = advance(random) >> 56;
  const uint64_t bits = advance(random) >> 32;
  if (kind < 160) return 1 + bits % 200;
  if (kind < 230) return 1 + bits % 5000;
  if (kind < 250) return 1 + bits % 40'000;
  return kind < 255 ? 1 + bits % 400'000 : 1 + bits % 9'000'000;
}

void* allocate(uint64_t& random) {
  const size_t size = some_size(random);
  switch (advance(random) >> 61) {
    case 0:
      return loft_calloc(1, size);
    case 1:
      return loft_memalign(size_t{16} << (advance(random) >> 61), size);
    case 2:
      return loft_realloc(loft_malloc(size / 2 + 1), size);
    default:
      return loft_malloc(size);
  }
}

// Threads allocate, keep some, free some of their own, and give the rest to others that free them.
// Half of them then end; the others wait, with what their caches hold, until all was visited.
void storm_and_visit(unsigned rounds) {
  constexpr unsigned kThreads = 6;
  const Objects before = visited();
  std::vector<std::vector<void*>> kept(kThreads + 1);
  kept[kThreads].reserve(before.size());
  for (const auto& [p, usable] : before) kept[kThreads].push_back(p);
  std::mutex lock;
  std::vector<void*> given;
  std::barrier everybody_has_worked(kThreads + 1);
  std::barrier all_was_visited(kThreads / 2 + 1);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      uint64_t random = seed_for(t);
      std::vector<void*> mine;
      for (unsigned i = 0; i < rounds; ++i) {
        mine.push_back(allocate(random));
        if (mine.size() < 300) continue;
        for (unsigned n = 0; n < 250; ++n) {
          std::swap(mine[(advance(random) >> 33) % mine.size()], mine.back());
          void* const p = mine.back();
          mine.pop_back();
          if (n % 2 == 0) {
            loft_free(p);
            continue;
          }
          const std::lock_guard guard(lock);
          given.push_back(p);
          if (n % 8 != 1) continue;
          std::swap(given[(advance(random) >> 33) % given.size()], given.back());
          loft_free(given.back());
          given.pop_back();
        }
      }
      kept[t] = mine;
      // Of what is left, each thread frees the objects that fall to it, and some stay.
      everybody_has_worked.arrive_and_wait();
      for (size_t i = t; i < given.size(); i += kThreads) {
        if (i % 16 == 0) continue;
        loft_free(given[i]);
        given[i] = nullptr;
      }
      if (t >= kThreads / 2) return;
      all_was_visited.arrive_and_wait();
      all_was_visited.arrive_and_wait();
    });
  }
  everybody_has_worked.arrive_and_wait();
  for (unsigned t = kThreads / 2; t < kThreads; ++t) threads[t].join();
  all_was_visited.arrive_and_wait();
  std::erase(given, nullptr);
  kept.push_back(given);
  const Objects wanted = known(kept);
  expect_same(visited(), wanted);
  all_was_visited.arrive_and_wait();
  for (unsigned t = 0; t < kThreads / 2; ++t) threads[t].join();
  expect_same(visited(), wanted);
  kept.erase(kept.begin() + kThreads);  // what was there before
  for (const auto& some : kept) {
    for (void* p : some) loft_free(p);
  }
  expect_same(visited(), before);
}

TEST_F(Visit, IsExactWhileOthersWait) {
  in_child([] { storm_and_visit(scaled(8000)); });
}

TEST_F(Visit, IsExactWhileAProfileIsTaken) {
  in_child([] {
    set("sample_bytes", "16K");
    set("profile", "on");
    storm_and_visit(scaled(8000));
    set("profile", "off");
    storm_and_visit(scaled(2000));
  });
}

// Not exact then, but what is kept is found, and nothing is read that is gone: whole spans go back
// to the system meanwhile.
void visit_beside_threads() {
  std::vector<std::vector<void*>> kept(1);
  uint64_t random = seed_for(3);
  for (int i = 0; i < 1000; ++i) kept[0].push_back(allocate(random));
  const Objects wanted = known(kept);
  std::atomic<bool> done{false};
  std::mutex lock;
  std::vector<void*> passed;  // from one thread to another
  on_threads(4, [&](unsigned t) {
    if (t == 0) {
      for (unsigned round = 0; round < scaled(60); ++round) {
        const auto add = [](void* context, void* object, size_t usable) {
          static_cast<Objects*>(context)->emplace(object, usable);
          return 0;
        };
        Objects found;
        loft_visit_objects(add, &found);
        const bool whole = std::includes(found.begin(), found.end(), wanted.begin(), wanted.end());
        EXPECT_TRUE(whole);
        if (round % 3 == 0) loft_purge(nullptr);
      }
      done = true;
      return;
    }
    uint64_t mine = t;
    while (!done) {
      std::vector<void*> objects;
      for (int i = 0; i < 2000; ++i) objects.push_back(allocate(mine));
      {
        const std::lock_guard guard(lock);
        objects.swap(passed);
      }
      for (void* p : objects) loft_free(p);
    }
  });
  for (void* p : passed) loft_free(p);
  for (void* p : kept[0]) loft_free(p);
}

TEST_F(Visit, BesideThreads) {
  in_child([] { visit_beside_threads(); });
}

TEST_F(Visit, BesideThreadsWhoseObjectsAreSampled) {
  in_child([] {
    set("sample_bytes", "4K");
    set("profile", "waste");
    visit_beside_threads();
  });
}

TEST_F(Visit, FindsWhatTheChildOfAForkHas) {
  uint64_t random = seed_for(5);
  std::vector<std::vector<void*>> kept(1);
  const Objects before = visited();
  for (const auto& [p, usable] : before) kept[0].push_back(p);
  for (int i = 0; i < 3000; ++i) {
    void* const p = allocate(random);
    if (i % 3 == 0) {
      loft_free(p);
    } else {
      kept[0].push_back(p);
    }
  }
  in_child([&] { expect_same(visited(), known(kept)); });
  for (void* p : kept[0]) {
    if (before.count(p) == 0) loft_free(p);
  }
}

// What a thread frees by the ten thousand is stashed in whole arrays; its last medium object lies
// in a bin where nothing marks it.
TEST_F(Visit, LeavesOutWhatIsStashed) {
  in_child([] {
    const Objects before = visited();
    std::vector<void*> objects(30'000);
    for (int round = 0; round < 20; ++round) {
      for (void*& p : objects) p = loft_malloc(16);
      for (void* p : objects) loft_free(p);
    }
    // Not a loop: each of the two is for another path of free.
    loft_free(loft_malloc(40'000));
    void* const medium = loft_malloc(40'000);
    loft_free(medium);
    EXPECT_EQ(visited(), before);
    EXPECT_EQ(visited().count(medium), 0u);
  });
}

TEST_F(Visit, OfHeapsOfTheProgramsOwn) {
  in_child([] {
    constexpr size_t kRegion = 4 << 20;
    alignas(256) static char region[kRegion];
    uint64_t random = seed_for(9);
    for (loft_heap_t* heap : {loft_heap_create(), loft_heap_create_over(region, kRegion)}) {
      ASSERT_NE(heap, nullptr);
      const Objects before = visited();
      Objects wanted;
      for (int i = 0; i < 4000; ++i) {
        void* const p = loft_heap_malloc(heap, some_size(random));
        if (p == nullptr) continue;  // a region is soon full
        if (i % 3 == 0) {
          loft_heap_free(heap, p);
        } else {
          wanted.emplace(p, loft_heap_usable_size(heap, p));
        }
      }
      Objects found;
      const auto add = [](void* context, void* object, size_t usable) {
        static_cast<Objects*>(context)->emplace(object, usable);
        return 0;
      };
      EXPECT_EQ(loft_heap_visit_objects(heap, add, &found), wanted.size());
      EXPECT_EQ(found, wanted);
      const bool in_region =
          wanted.begin()->first >= region && wanted.begin()->first < region + kRegion;
      EXPECT_EQ(visited().size(), before.size() + (in_region ? 0 : wanted.size()));
      loft_heap_destroy(heap);
      EXPECT_EQ(visited(), before);
    }
  });
}

TEST_F(Visit, EndsWhenItIsTold) {
  in_child([] {
    std::vector<void*> objects;
    for (int i = 0; i < 100; ++i) objects.push_back(loft_malloc(64));
    int left = 10;
    const auto count = [](void* context, void*, size_t) {
      return --*static_cast<int*>(context) == 0 ? 1 : 0;
    };
    EXPECT_EQ(loft_visit_objects(count, &left), 10u);
    for (void* p : objects) loft_free(p);
  });
}

TEST_F(Visit, TheVisitorMayFreeAndAllocate) {
  in_child([] {
    std::vector<void*> objects;
    for (int i = 0; i < 1000; ++i) objects.push_back(loft_malloc(static_cast<size_t>(i) * 50));
    const auto replace = [](void* context, void* object, size_t) {
      loft_free(object);
      static_cast<std::vector<void*>*>(context)->push_back(loft_malloc(100));
      return 0;
    };
    std::vector<void*> fresh;
    // Objects that the visitor made may lie where others were that it has freed.
    const size_t visits = loft_visit_objects(replace, &fresh);
    EXPECT_EQ(visits, fresh.size());
    // Hardened, the one of no bytes lies elsewhere.
    EXPECT_GE(visits, hardened() ? 999u : 1000u);
  });
}

}  // namespace
}  // namespace storm
