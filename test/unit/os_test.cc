// The system floor: pages, errno, the lock, reports.
#include <errno.h>
#include <gtest/gtest.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/keep.h"
#include "control.h"
#include "heap/large.h"
#include "os/fault.h"
#include "os/lock.h"
#include "os/os.h"
#include "os/residency.h"
#include "refused_call.h"
#include "space/discards.h"

namespace loft {
namespace {

bool reads_zero(const char* bytes, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (bytes[i] != 0) return false;
  }
  return true;
}

TEST(Pages, SizeIsTheSystems) {
  EXPECT_EQ(os::page_size(), static_cast<size_t>(sysconf(_SC_PAGESIZE)));
}

TEST(Pages, CommitAndDiscard) {
  const size_t bytes = 8 * os::page_size();
  auto* at = static_cast<char*>(os::reserve(bytes));
  ASSERT_NE(at, nullptr);
  ASSERT_TRUE(os::commit(at, bytes));
  EXPECT_TRUE(reads_zero(at, bytes));
  memset(at, 1, bytes);
  // A part gives its memory back, the rest keeps its bytes.
  ASSERT_TRUE(os::discard(at + bytes / 4, bytes / 2));
  EXPECT_TRUE(reads_zero(at + bytes / 4, bytes / 2));
  EXPECT_EQ(at[bytes / 4 - 1], 1);
  EXPECT_EQ(at[bytes * 3 / 4], 1);
  os::unmap(at, bytes);
}

// Whether a page that was only read counts as no memory.
bool knows_pages_of_zeros() {
  auto* at = static_cast<char*>(os::reserve(os::page_size()));
  os::commit(at, os::page_size());
  const bool zero = *static_cast<volatile char*>(at) == 0;
  const auto from = reinterpret_cast<uintptr_t>(at);
  os::Residency residency;
  residency.begin(from, from + os::page_size());
  const bool none = residency.until(from + os::page_size()).resident == 0;
  os::unmap(at, os::page_size());
  return zero && none;
}

// `touched`: every so many pages; `locked`: the first ones cannot be given back. No page gets
// memory that had none, and where most have some all of these keep it.
void expect_clears(size_t pages, size_t touched, bool locked) {
  const size_t page = os::page_size();
  auto* at = static_cast<char*>(os::reserve(pages * page));
  ASSERT_NE(at, nullptr);
  ASSERT_TRUE(os::commit(at, pages * page));
  os::advise(at, pages * page, os::Advice::kNoHugePages);
  for (size_t i = 0; i < pages; i += touched) memset(at + i * page, 1, page);
  const unsigned long discards = os::calls().discards;
  if (locked && mlock2(at, 3 * page, MLOCK_ONFAULT) != 0) {
    os::unmap(at, pages * page);
    GTEST_SKIP() << "may not lock memory";
  }
  errno = 4711;
  large::clear(at, pages * page);
  EXPECT_EQ(errno, 4711);
  if (touched == 1) {
    EXPECT_EQ(os::calls().discards, discards);
  }
  const auto from = reinterpret_cast<uintptr_t>(at);
  os::Residency residency;
  residency.begin(from, from + pages * page);
  const size_t resident = residency.until(from + pages * page).resident;
  // Before Linux 6.7 the one page of zeros counts, which all of them may be by now.
  if (knows_pages_of_zeros()) {
    EXPECT_LE(resident, (pages + touched - 1) / touched * page);
  }
  if (touched == 1) {
    EXPECT_EQ(resident, pages * page);
  }
  EXPECT_TRUE(reads_zero(at, pages * page));
  os::unmap(at, pages * page);
}

TEST(Pages, ClearedWhereTheyHoldMemory) {
  for (const size_t pages : {1u, 255u, 256u, 1024u, 1025u, 5000u}) expect_clears(pages, 1, false);
  for (const size_t pages : {256u, 1024u, 1025u, 5000u}) {
    for (const size_t touched : {2u, 3u, 100u, 1500u}) expect_clears(pages, touched, false);
  }
}

// A page that was only read is the system's one page of zeros, and stays that.
TEST(Pages, NoneForThoseThatWereOnlyRead) {
  const size_t bytes = 5000 * os::page_size();
  auto* at = static_cast<char*>(os::reserve(bytes));
  ASSERT_TRUE(os::commit(at, bytes));
  os::advise(at, bytes, os::Advice::kNoHugePages);
  EXPECT_TRUE(reads_zero(at, bytes));
  at[bytes / 2] = 1;
  rusage before;
  rusage after;
  getrusage(RUSAGE_SELF, &before);
  large::clear(at, bytes);
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_minflt - before.ru_minflt, 500) << "of writes to 4999 pages of zeros";
  EXPECT_TRUE(reads_zero(at, bytes));
  os::unmap(at, bytes);
}

TEST(Pages, LockedOnesAreCleared) { expect_clears(5000, 100, true); }

TEST(Pages, NothingIsPlacedWhereSomebodyIs) {
  const size_t bytes = 4 * os::page_size();
  void* at = os::reserve(bytes);
  ASSERT_NE(at, nullptr);
  errno = 4711;
  EXPECT_EQ(os::map_at(at, bytes), os::Mapped::kOccupied);
  EXPECT_FALSE(os::map_zeros_at(at, bytes));
  EXPECT_EQ(errno, 4711);
  EXPECT_TRUE(os::unmap(at, bytes));
  EXPECT_EQ(os::map_at(at, bytes), os::Mapped::kYes);
  memset(at, 1, bytes);
  os::unmap(at, bytes);
#if !defined(LOFT_THREAD_SANITIZER)  // whose own mmap drops an address that is none
  EXPECT_EQ(os::map_at(reinterpret_cast<void*>(uintptr_t{1} << 62), bytes), os::Mapped::kNoMemory);
#endif
  EXPECT_EQ(errno, 4711);
}

TEST(Pages, ZerosAreReadable) {
  const size_t bytes = 4 * os::page_size();
  auto* at = static_cast<char*>(os::reserve(bytes));
  os::unmap(at, bytes);
  ASSERT_TRUE(os::map_zeros_at(at, bytes));
  EXPECT_TRUE(reads_zero(at, bytes));
  os::unmap(at, bytes);
}

TEST(Pages, MoveTakesTheBytesAlong) {
  const size_t bytes = 4 * os::page_size();
  auto* from = static_cast<char*>(os::reserve(2 * bytes));
  char* to = from + bytes;
  ASSERT_TRUE(os::commit(from, 2 * bytes));
  memset(from, 7, bytes);
  memset(to, 9, bytes);
  if (!os::move_pages(from, to, bytes)) GTEST_SKIP() << "the kernel cannot move pages";
  EXPECT_EQ(to[0], 7);
  EXPECT_EQ(to[bytes - 1], 7);
  // The source is still ours, and empty.
  EXPECT_TRUE(reads_zero(from, bytes));
  os::unmap(from, 2 * bytes);
}

TEST(Pages, RefusalsKeepErrno) {
  errno = 4711;
  EXPECT_EQ(os::reserve(size_t{1} << 60), nullptr);
  EXPECT_EQ(errno, 4711);
  auto* at = static_cast<char*>(os::reserve(os::page_size()));
  ASSERT_TRUE(os::commit(at, os::page_size()));
  *at = 9;
  if (syscall(SYS_mlock, at, os::page_size()) == 0) {
    EXPECT_FALSE(os::discard(at, os::page_size()));
    EXPECT_EQ(*at, 9) << "the memory as it was";
  }
  os::unmap(at, os::page_size());
  EXPECT_EQ(errno, 4711);
}

// One of several proves the others. Where it is refused, each has to prove itself.
TEST(Pages, SeveralAreDiscardedAtOnce) {
  constexpr unsigned kRanges = 5;
  const size_t page = os::page_size();
  const size_t bytes = 2 * kRanges * page;
  auto* at = static_cast<char*>(os::reserve(bytes));
  ASSERT_TRUE(os::commit(at, bytes));
  for (const unsigned locked : {kRanges, 1u, kRanges - 1}) {
    memset(at, 1, bytes);
    char* const range = at + 2 * locked * page;
    if (locked != kRanges && syscall(SYS_mlock, range, page) != 0) continue;
    const uint64_t done = discard_all(kRanges, [&](unsigned i) {
      return Discard{reinterpret_cast<uintptr_t>(at + 2 * i * page), page};
    });
    EXPECT_EQ(done, ((1u << kRanges) - 1) & ~(1u << locked));
    for (unsigned i = 0; i < 2 * kRanges; ++i) {
      EXPECT_EQ(at[i * page], i % 2 == 0 && i != 2 * locked ? 0 : 1) << i;
    }
    if (locked != kRanges) syscall(SYS_munlock, range, page);
  }
  EXPECT_EQ(discard_all(0, [](unsigned) { return Discard{}; }), 0u);
  os::unmap(at, bytes);
}

TEST(Pages, NewMappingsAreLocked) {
  EXPECT_FALSE(os::locks_mappings());
  // Not through libc: sanitizers replace the call.
  if (syscall(SYS_mlockall, MCL_FUTURE) != 0) GTEST_SKIP() << "nothing can be locked here";
  EXPECT_TRUE(os::locks_mappings());
  syscall(SYS_munlockall);
  EXPECT_FALSE(os::locks_mappings());
}

TEST(Pages, CallsAreCounted) {
  const os::Calls before = os::calls();
  void* at = os::reserve(os::page_size());
  os::commit(at, os::page_size());
  os::discard(at, os::page_size());
  const os::Calls after = os::calls();
  EXPECT_EQ(after.maps - before.maps, 2u);
  EXPECT_EQ(after.discards - before.discards, 1u);
  os::unmap(at, os::page_size());
}

TEST(Errno, KeptAcrossAScope) {
  errno = 12;
  {
    const KeepErrno keep;
    errno = 34;
  }
  EXPECT_EQ(errno, 12);
  EXPECT_EQ(os::out_of_memory(), nullptr);
  EXPECT_EQ(errno, ENOMEM);
}

#if defined(__GLIBC__)
// The auxiliary vector, behind the environment as it is before anybody changes it.
struct Auxiliary {
  unsigned long name;
  unsigned long value;
};
Auxiliary* told_at_start;
__attribute__((constructor)) void find_what_is_told(int, char**, char** entries) {
  while (*entries != nullptr) ++entries;
  told_at_start = reinterpret_cast<Auxiliary*>(entries + 1);
}

// As where the kernel has no vDSO or does not say so.
TEST(Errno, KeptWhereTheKernelTellsNothing) {
  std::vector<std::pair<Auxiliary*, unsigned long>> hidden;
  for (Auxiliary* told = told_at_start; told->name != AT_NULL; ++told) {
    if (told->name != AT_SYSINFO_EHDR && told->name != AT_RANDOM) continue;
    hidden.emplace_back(told, std::exchange(told->name, AT_IGNORE));
  }
  ASSERT_EQ(getauxval(AT_RANDOM), 0u);
  errno = 4711;
  EXPECT_FALSE(test::system::may_try_long_mappings());
  EXPECT_FALSE(os::can_move_pages(false));
  uint64_t drawn[2] = {};
  test::system::random_bytes(drawn, sizeof(drawn));
  EXPECT_NE(drawn[0], drawn[1]);
  EXPECT_EQ(errno, 4711);
  for (const auto& [told, name] : hidden) told->name = name;
}
#endif

// Makes getrandom fail from now on, as a filter of system calls may.
bool refuse_random() {
  char byte = 0;
  return test::refuse_call(SYS_getrandom) && syscall(SYS_getrandom, &byte, 1, 0) < 0;
}

// Neither from the system's generator nor without it.
TEST(RandomBytes, AreNoOthersThatTheProcessHas) {
  const pid_t child = fork();
  if (child == 0) {
    unsigned char given[16];
    memcpy(given, reinterpret_cast<const void*>(getauxval(AT_RANDOM)), sizeof(given));
    std::set<uint64_t> all;
    for (const bool refused : {false, true}) {
      if (refused && !refuse_random()) _exit(0);  // no filters here
      errno = 4711;
      for (unsigned i = 0; i < 100; ++i) {
        unsigned char drawn[48];
        test::system::random_bytes(drawn, sizeof(drawn));
        if (errno != 4711) _exit(1);
        for (size_t at = 0; at + 8 <= sizeof(drawn); ++at) {
          for (const size_t half : {0, 8}) {
            if (memcmp(drawn + at, given + half, 8) == 0) _exit(2);
          }
          uint64_t one = 0;
          memcpy(&one, drawn + at, sizeof(one));
          if (!all.insert(one).second) _exit(3);
        }
      }
    }
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Environment, EntriesThatBeginSo) {
  const auto entries = [](const char* prefix) {
    std::set<std::string> found;
    const auto note = [](void* to, const char* entry) {
      static_cast<std::set<std::string>*>(to)->insert(entry);
    };
    os::visit_environment(prefix, note, &found);
    return found;
  };
  using Entries = std::set<std::string>;
  setenv("LOFT_ENTRY_NAME", "value=1", 1);
  setenv("LOFT_ENTRY_OTHER", "", 1);
  EXPECT_EQ(entries("LOFT_ENTRY_"), (Entries{"LOFT_ENTRY_NAME=value=1", "LOFT_ENTRY_OTHER="}));
  EXPECT_EQ(entries("LOFT_ENTRY_NAME="), Entries{"LOFT_ENTRY_NAME=value=1"});
  EXPECT_EQ(entries("OFT_ENTRY_NAME"), Entries{});
  unsetenv("LOFT_ENTRY_NAME");
  unsetenv("LOFT_ENTRY_OTHER");
  EXPECT_EQ(entries("LOFT_ENTRY_"), Entries{});
}

TEST(Lock, ZeroedMemoryIsUnlocked) {
  alignas(os::Lock) unsigned char bytes[sizeof(os::Lock)] = {};
  auto* lock = reinterpret_cast<os::Lock*>(bytes);
  EXPECT_TRUE(lock->try_lock());
  EXPECT_FALSE(lock->try_lock());
  lock->unlock();
  EXPECT_TRUE(lock->try_lock());
}

TEST(Lock, CountsAcquisitions) {
  os::Lock lock;
  EXPECT_EQ(lock.acquisitions(), 0u);
  {
    const os::Guard guard(lock);
    EXPECT_TRUE(lock.is_held());
  }
  EXPECT_FALSE(lock.is_held());
  EXPECT_EQ(lock.acquisitions(), 1u);
  ASSERT_TRUE(lock.try_lock());
  EXPECT_FALSE(lock.try_lock());
  EXPECT_EQ(lock.acquisitions(), 2u);
  lock.unlock();
}

TEST(Lock, ResetFreesIt) {
  os::Lock lock;
  lock.lock();
  lock.reset();
  EXPECT_TRUE(lock.try_lock());
  lock.unlock();
}

// The counter is plain: two holders at once would lose a step, and the thread sanitizer would say
// so.
TEST(Lock, OneHolderAtATime) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 20'000;
  os::Lock lock;
  long counter = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        if (t % 2 == 0) {
          lock.lock();
        } else {
          while (!lock.try_lock()) std::this_thread::yield();
        }
        ++counter;
        // Now and then a holder that is descheduled, so that the others go to sleep.
        if (i % 1000 == 0) std::this_thread::yield();
        lock.unlock();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter, long{kThreads} * kRounds);
  EXPECT_EQ(lock.acquisitions(), static_cast<unsigned long>(kThreads) * kRounds);
}

// Waiters sleep in the kernel while the holder keeps the lock; one unlock after the other wakes
// them all.
TEST(Lock, SleepersAreWoken) {
  os::Lock lock;
  int done = 0;
  lock.lock();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      const os::Guard guard(lock);
      ++done;
    });
  }
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  lock.unlock();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, 4);
}

TEST(Report, OneLineInOnePiece) {
  testing::internal::CaptureStderr();
  os::report(Text() << "something at " << uint64_t{42});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "loft: something at 42\n");
}

TEST(ReportDeathTest, FaultStopsTheProgram) {
  EXPECT_EXIT(os::fault(Text() << "the end"), testing::KilledBySignal(SIGABRT),
              "^loft: the end[^\n]*\n");
}

}  // namespace
}  // namespace loft
