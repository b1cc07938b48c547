// Memory refused by the system, at every call that maps, moves or discards memory in turn.
//
// The linker sends those calls here (test/CMakeLists.txt). Each case runs in a process of its own,
// in which loft has not run before, so that the first calls, those that lay out the address space,
// are refused like all others.
#include <errno.h>
#include <gtest/gtest.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "calls.h"
#include "storm/support.h"

namespace storm {
namespace {

std::atomic<bool> counting{false};
std::atomic<long> calls{0};
std::atomic<long> refuse_from{0};  // numbers of calls, from 1
std::atomic<long> refuse_to{0};    // beyond the last
std::atomic<uint64_t> seed{0};     // if not 0: three of four calls are refused, at random

bool refused() {
  if (!counting) return false;
  const long n = ++calls;
  if (seed != 0) {
    if ((word_of(seed, 0) * static_cast<uint64_t>(2 * n + 1)) >> 62 == 0) return false;
  } else if (n < refuse_from || n >= refuse_to) {
    return false;
  }
  errno = ENOMEM;
  return true;
}

}  // namespace
}  // namespace storm

void* CALL_MMAP(__wrap_)(void* at, size_t bytes, int protection, int flags) {
  if (storm::refused()) return MAP_FAILED;
  return CALL_MMAP(__real_)(at, bytes, protection, flags);
}

// Refused as the others are, but not at random: it needs no memory where it takes a mapping away as
// a whole, and what it has left behind again and again must not be held against anybody.
int CALL_MUNMAP(__wrap_)(void* at, size_t bytes) {
  if (storm::seed == 0 && storm::refused()) return -1;
  return CALL_MUNMAP(__real_)(at, bytes);
}

void* CALL_MREMAP(__wrap_)(void* from, size_t bytes, size_t to_bytes, int flags, void* to) {
  if (storm::refused()) return MAP_FAILED;
  return CALL_MREMAP(__real_)(from, bytes, to_bytes, flags, to);
}

int CALL_MADVISE(__wrap_)(void* at, size_t bytes, int advice) {
  return storm::refused() ? -1 : CALL_MADVISE(__real_)(at, bytes, advice);
}

namespace storm {
namespace {

// What went wrong in a child, told on standard error and by its exit status.
#define STORM_EXPECT(condition)                                                 \
  do {                                                                          \
    if (!(condition)) {                                                         \
      fprintf(stderr, "line %d, calls refused from %ld to %ld: %s\n", __LINE__, \
              refuse_from.load(), refuse_to.load(), #condition);                \
      _exit(1);                                                                 \
    }                                                                           \
  } while (false)

constexpr size_t kMiB = 1 << 20;
constexpr size_t kSmall[] = {16, 40, 64, 200, 512, 1'000};
constexpr size_t kBig[] = {3'000, 9'000, 30'000, 40'000, 300'000, 1'300'000};

alignas(4096) char region[8 * kMiB];

struct Object {
  void* p;
  uint64_t id;
  size_t size;
};

// What one thread has. Each step may be refused; what was had before stays what it was.
class Workload {
 public:
  explicit Workload(uint64_t first_id) : next_id_(first_id) {}

  // True if nothing was refused.
  bool run() {
    const unsigned refused_before = refused_;
    for (unsigned i = 0; i < 2'500; ++i) allocate(kSmall[i % std::size(kSmall)]);
    for (unsigned i = 0; i < 12; ++i) allocate(kBig[i % std::size(kBig)]);
    for (unsigned i = 0; i < 6; ++i) allocate_zeroed(kBig[i % std::size(kBig)]);
    for (size_t alignment = 16; alignment <= 4 * kMiB; alignment *= 4) {
      allocate_aligned(alignment, 100);
      allocate_aligned(alignment, 50'000);
    }
    grow(100'000, 24 * kMiB);
    grow(64, 2 * kMiB);
    free_some();
    use_heap(loft_heap_create());
    use_heap(loft_heap_create_over(region, sizeof(region)));
    for (unsigned i = 0; i < 600; ++i) allocate(kSmall[i % std::size(kSmall)]);
    allocate_zeroed(3 * kMiB);
    loft_malloc_trim(0);
    allocate_zeroed(3 * kMiB);
    return refused_ == refused_before;
  }

  void check() const {
    for (const Object& object : objects_) {
      STORM_EXPECT(intact(object.p, object.id, object.size));
      STORM_EXPECT(loft_malloc_usable_size(object.p) >= object.size);
    }
  }

  void free_all() {
    check();
    for (const Object& object : objects_) loft_free(object.p);
    objects_.clear();
  }

  std::vector<Object> take() { return std::move(objects_); }

 private:
  void keep(void* p, size_t size) {
    if (p == nullptr) {
      STORM_EXPECT(errno == ENOMEM);
      ++refused_;
    } else {
      stamp(p, next_id_, size);
      objects_.push_back({p, next_id_++, size});
    }
    errno = 0;
  }

  void allocate(size_t size) { keep(loft_malloc(size), size); }

  void allocate_zeroed(size_t size) {
    auto* p = static_cast<const char*>(loft_calloc(1, size));
    for (size_t i = 0; p != nullptr && i < size; i += 64) STORM_EXPECT(p[i] == 0);
    keep(const_cast<char*>(p), size);
  }

  void allocate_aligned(size_t alignment, size_t size) {
    void* p = loft_aligned_alloc(alignment, size);
    STORM_EXPECT(reinterpret_cast<uintptr_t>(p) % alignment == 0);
    keep(p, size);
  }

  // One object, doubled until it is large; behind it another one, so that it has to move.
  void grow(size_t from, size_t to) {
    void* p = loft_malloc(from);
    keep(p, from);
    if (p == nullptr) return;
    for (size_t size = 2 * from; size <= to; size *= 2) {
      allocate(200'000);
      Object& object = find(p);
      void* moved = loft_realloc(p, size);
      if (moved == nullptr) {
        STORM_EXPECT(errno == ENOMEM);
        STORM_EXPECT(intact(p, object.id, object.size));
        ++refused_;
        errno = 0;
        continue;
      }
      STORM_EXPECT(intact(moved, object.id, object.size));
      object = {moved, object.id, size};
      p = moved;
      stamp(p, object.id, size);
    }
    Object& object = find(p);
    void* shrunk = loft_realloc(p, from);
    STORM_EXPECT(shrunk != nullptr || errno == ENOMEM);
    if (shrunk == nullptr) return;
    STORM_EXPECT(intact(shrunk, object.id, object.size, from));
    object = {shrunk, object.id, from};
    stamp(shrunk, object.id, from);
  }

  // A heap that lives for a moment; of a region, the map takes pages of its own.
  void use_heap(loft_heap_t* heap) {
    if (heap == nullptr) {
      STORM_EXPECT(errno == ENOMEM);
      ++refused_;
      errno = 0;
      return;
    }
    std::vector<Object> objects;
    for (uint64_t i = 0; i < 200; ++i) {
      const size_t size =
          i % 20 == 0 ? kBig[i / 20 % std::size(kBig)] : kSmall[i % std::size(kSmall)];
      void* p = loft_heap_malloc(heap, size);
      if (p == nullptr) {
        STORM_EXPECT(errno == ENOMEM);
        ++refused_;
        errno = 0;
        continue;
      }
      stamp(p, i, size);
      objects.push_back({p, i, size});
    }
    for (const Object& object : objects) {
      STORM_EXPECT(intact(object.p, object.id, object.size));
      if (object.id % 3 == 0) loft_heap_free(heap, object.p);
    }
    loft_heap_destroy(heap);
  }

  Object& find(void* p) {
    for (Object& object : objects_) {
      if (object.p == p) return object;
    }
    STORM_EXPECT(!"the object is among those kept");
    return objects_[0];
  }

  void free_some() {
    std::vector<Object> rest;
    for (size_t i = 0; i < objects_.size(); ++i) {
      const Object& object = objects_[i];
      STORM_EXPECT(intact(object.p, object.id, object.size));
      if (i % 3 == 0) {
        rest.push_back(object);
      } else {
        errno = 77;
        loft_free(object.p);
        STORM_EXPECT(errno == 77);
      }
    }
    objects_ = std::move(rest);
  }

  uint64_t next_id_;
  unsigned refused_ = 0;
  std::vector<Object> objects_;
};

// Runs in a child. The first thread works, then a second one, which frees what the first had, then
// the first again. Then the refusals are lifted: everything is as it was, and everything is served.
void run_refused() {
  counting = true;
  Workload mine(1);
  mine.run();
  Workload others(1'000'000);
  const std::vector<Object> of_first = mine.take();
  std::thread([&] {
    for (const Object& object : of_first) {
      STORM_EXPECT(intact(object.p, object.id, object.size));
      loft_free(object.p);
    }
    others.run();
  }).join();
  mine.run();
  counting = false;
  mine.check();
  others.check();
  STORM_EXPECT(mine.run());
  std::thread([&] { STORM_EXPECT(others.run()); }).join();
  mine.free_all();
  others.free_all();
  const loft_stats_t s = stats_at_rest();
  STORM_EXPECT(s.large_bytes == 0);
  STORM_EXPECT(s.user_heaps == 0);
}

struct Result {
  bool good;
  long calls;
};

// Runs in a process that may map `limit` bytes, after arranging with set_up() what is refused.
template <class SetUp>
Result in_child(rlim_t limit, SetUp set_up) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    loft::test::end_what_hangs();
    // What the system refused to unmap stays where a fixed place would be asked for again.
    loft::test::let_the_system_place();
    const struct rlimit allowed = {limit, limit};
    STORM_EXPECT(limit == RLIM_INFINITY || setrlimit(RLIMIT_AS, &allowed) == 0);
    set_up();
    run_refused();
    const long made = calls;
    STORM_EXPECT(write(ends[1], &made, sizeof(made)) == sizeof(made));
    _exit(0);
  }
  close(ends[1]);
  Result result = {false, 0};
  result.good = read(ends[0], &result.calls, sizeof(result.calls)) == sizeof(result.calls);
  close(ends[0]);
  int status = -1;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  result.good = result.good && status == 0;
  return result;
}

#if defined(STORM_THREAD_SANITIZER)
constexpr long kStep =
    9;  // its processes take a second to fork and to end; the others see them all
#else
constexpr long kStep = 1;
#endif

enum class Failure { kOnce, kFromThenOn };

// Until the workload is through before its n-th call.
void every_call_in_turn(Failure failure, rlim_t limit = RLIM_INFINITY) {
  long n = 1;
  for (long made = LONG_MAX; made >= n; n += kStep) {
    SCOPED_TRACE(n);
    const Result result = in_child(limit, [&] {
      refuse_from = n;
      refuse_to = failure == Failure::kOnce ? n + 1 : LONG_MAX;
    });
    ASSERT_TRUE(result.good);
    made = result.calls;
  }
  EXPECT_GT(n, 20) << "the workload maps too little to say anything";
}

void at_random(rlim_t limit) {
  for (long n = 1; n <= 20 / kStep; ++n) {
    SCOPED_TRACE(n);
    ASSERT_TRUE(in_child(limit, [n] { seed = seed_for(static_cast<uint64_t>(n)); }).good);
  }
}

TEST(Refused, OneCall) { every_call_in_turn(Failure::kOnce); }
TEST(Refused, FromOneCallOn) { every_call_in_turn(Failure::kFromThenOn); }
TEST(Refused, AtRandom) { at_random(RLIM_INFINITY); }

// The sanitizers map terabytes themselves: no limit that they live under means anything.
#if !defined(STORM_THREAD_SANITIZER) && !defined(STORM_ADDRESS_SANITIZER)
constexpr rlim_t kLimit = rlim_t{4} << 30;

TEST(Refused, OneCallUnderALimit) { every_call_in_turn(Failure::kOnce, kLimit); }
TEST(Refused, FromOneCallOnUnderALimit) { every_call_in_turn(Failure::kFromThenOn, kLimit); }
TEST(Refused, AtRandomUnderALimit) { at_random(kLimit); }
#endif

}  // namespace
}  // namespace storm
