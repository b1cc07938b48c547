// The paper's hand-shake with the room in libc's place, with either allocator in the room: every
// function is served by the dedicated thread, whichever thread asks, and what cannot be is served
// all the same.
#include <errno.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "nextgen/mailbox.h"

namespace {

template <class T>
T opaque(T value) {
  __asm__ volatile("" : "+r"(value) : : "memory");
  return value;
}

// The first call starts the room; those made before it runs serve themselves.
void wait_for_room() {
  const unsigned long before = loft_nextgen_served();
  while (loft_nextgen_served() == before) free(opaque(malloc(opaque(16))));
}

TEST(NextGen, EveryCallIsServedByTheRoom) {
  wait_for_room();
  void* object = opaque(malloc(100));  // waits for the last free
  const unsigned long before = loft_nextgen_served();
  for (int i = 0; i < 1000; ++i) {
    void* p = opaque(malloc(opaque(64)));
    memset(p, i, 64);
    free(p);
  }
  void* other = opaque(malloc(100));
  EXPECT_EQ(loft_nextgen_served() - before, 2001u);
  free(other);
  object = opaque(realloc(object, 5000));
  EXPECT_GE(loft_nextgen_served() - before, 2002u);
  free(object);
}

// The first call starts the room and waits for it: also in a short program nearly all calls are
// the room's.
TEST(NextGen, AThreadServesItselfUntilTheFirstCallReturns) {
  free(opaque(malloc(opaque(16))));
  const unsigned long unserved = loft_nextgen_unserved();
  const unsigned long served = loft_nextgen_served();
  for (int i = 0; i < 100; ++i) free(opaque(malloc(opaque(16))));
  free(opaque(malloc(opaque(16))));
  EXPECT_EQ(loft_nextgen_unserved(), unserved);
  EXPECT_GE(loft_nextgen_served() - served, 200u);
}

// More threads than processors: those that wait yield, and all come to their end.
TEST(NextGen, ThreadsWithoutAProcessorOfTheirOwnYield) {
  const unsigned count = 2 * std::thread::hardware_concurrency() + 1;
  std::vector<std::thread> many;
  std::atomic<unsigned> ended{0};
  for (unsigned t = 0; t < count; ++t) {
    many.emplace_back([&] {
      for (int i = 0; i < 100; ++i) free(opaque(malloc(opaque(64))));
      ++ended;
    });
  }
  for (std::thread& thread : many) thread.join();
  EXPECT_EQ(ended, count);
}

TEST(NextGen, ContractsHold) {
  wait_for_room();
  errno = 0;
  EXPECT_EQ(opaque(malloc(opaque(SIZE_MAX))), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(opaque(calloc(opaque(SIZE_MAX / 2), opaque(size_t{3}))), nullptr);
  EXPECT_EQ(aligned_alloc(opaque(size_t{48}), 10), nullptr);
  EXPECT_EQ(errno, EINVAL);
  void* p = nullptr;
  EXPECT_EQ(posix_memalign(&p, opaque(size_t{3}), 10), EINVAL);
  for (size_t alignment = 16; alignment <= size_t{1} << 20; alignment *= 4) {
    ASSERT_EQ(posix_memalign(&p, alignment, 100), 0);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % alignment, 0u);
    free(p);
  }
  auto* zeros = static_cast<unsigned char*>(opaque(calloc(opaque(100), 1000)));
  for (size_t i = 0; i < 100'000; ++i) ASSERT_EQ(zeros[i], 0);
  strcpy(reinterpret_cast<char*>(zeros), "kept");
  zeros = static_cast<unsigned char*>(realloc(zeros, 1'000'000));
  EXPECT_STREQ(reinterpret_cast<char*>(zeros), "kept");
  EXPECT_GE(malloc_usable_size(zeros), 1'000'000u);
  EXPECT_EQ(opaque(realloc(zeros, opaque(size_t{0}))), nullptr);
}

// Threads that start and end, and free each other's objects; each block holds its own address.
TEST(NextGen, ThreadsShareTheRoom) {
  constexpr int kThreads = 4;
  constexpr int kSlots = 256;
  std::vector<std::atomic<uintptr_t*>> slots(kSlots);
  std::atomic<bool> damaged{false};
  for (int generation = 0; generation < 3; ++generation) {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937 random(static_cast<unsigned>(generation * kThreads + t));
        for (int i = 0; i < 3000; ++i) {
          auto* fresh = static_cast<uintptr_t*>(malloc(sizeof(uintptr_t) + random() % 2000));
          *fresh = reinterpret_cast<uintptr_t>(fresh);
          uintptr_t* old = slots[random() % kSlots].exchange(fresh);
          if (old == nullptr) continue;
          if (*old != reinterpret_cast<uintptr_t>(old)) damaged = true;
          free(old);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_FALSE(damaged);
  for (auto& slot : slots) free(slot.exchange(nullptr));
}

// Threads that are past their end serve themselves. Each frees what the room gave it, and makes
// what the room will free.
pthread_key_t late_key;
std::atomic<int> late_faults{0};

void at_late_end(void* value) {
  const auto& from_room = *static_cast<std::vector<uintptr_t*>*>(value);
  for (uintptr_t* p : from_room) {
    if (*p != reinterpret_cast<uintptr_t>(p)) ++late_faults;
    free(p);
  }
  const unsigned long before = loft_nextgen_served();
  for (size_t size = 1; size < 100'000; size = size * 5 / 4 + 1) {
    auto* p = static_cast<char*>(opaque(malloc(opaque(size))));
    memset(p, 7, size);
    p = static_cast<char*>(opaque(realloc(p, opaque(2 * size))));
    if (p[0] != 7 || p[size - 1] != 7) ++late_faults;
    free(p);
  }
  if (loft_nextgen_served() != before) ++late_faults;
}

TEST(NextGen, AThreadPastItsEndServesItself) {
  wait_for_room();
  // A later key's destructor runs later: the mailbox is gone.
  ASSERT_EQ(pthread_key_create(&late_key, at_late_end), 0);
  for (int i = 0; i < 20; ++i) {
    std::vector<uintptr_t*> from_room(500);
    std::thread([&] {
      for (size_t k = 0; k < from_room.size(); ++k) {
        auto* p = static_cast<uintptr_t*>(malloc(16 + k * 97 % 40'000));
        *p = reinterpret_cast<uintptr_t>(p);
        from_room[k] = p;
      }
      pthread_setspecific(late_key, &from_room);
    }).join();
  }
  EXPECT_EQ(late_faults, 0);
  pthread_key_delete(late_key);
}

TEST(NextGen, AChildOfAForkFreesWhatItsParentsRoomMade) {
  wait_for_room();
  std::vector<std::unique_ptr<std::vector<uintptr_t>>> objects;
  for (size_t i = 0; i < 2000; ++i) {
    objects.push_back(std::make_unique<std::vector<uintptr_t>>(1 + i % 300, i));
  }
  const auto intact = [&] {
    for (size_t i = 0; i < objects.size(); ++i) {
      for (uintptr_t word : *objects[i]) {
        if (word != i) return false;
      }
    }
    return true;
  };
  for (int i = 0; i < 5; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      // The first half before its room runs.
      for (size_t k = 0; k < 1000; ++k) objects.pop_back();
      wait_for_room();
      for (size_t k = 0; k < 2000; ++k) {
        objects.push_back(std::make_unique<std::vector<uintptr_t>>(1 + k % 300, objects.size()));
      }
      _exit(intact() ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_TRUE(intact());
}

// The mailbox of a thread whose process has forked twice is still its own, though it has asked for
// nothing in between.
TEST(NextGen, AChildThatForksAtOnceKeepsItsMailbox) {
  wait_for_room();
  const pid_t child = fork();
  if (child == 0) {
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      wait_for_room();
      const nextgen::Mailbox* const mine = nextgen::own_box;
      const nextgen::Mailbox* other = nullptr;
      std::thread([&] {
        free(opaque(malloc(opaque(16))));
        other = nextgen::own_box;
      }).join();
      _exit(mine != nullptr && other != nullptr && mine != other ? 0 : 1);
    }
    int status = -1;
    _exit(waitpid(grandchild, &status, 0) == grandchild && status == 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Several threads fork, while others ask the room.
TEST(NextGen, ThreadsThatFork) {
  wait_for_room();
  std::atomic<bool> stop{false};
  std::atomic<int> faults{0};
  std::thread other([&] {
    while (!stop) free(opaque(malloc(opaque(3000))));
  });
  std::vector<std::thread> forking;
  for (int t = 0; t < 3; ++t) {
    forking.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        void* p = opaque(malloc(opaque(500)));
        const pid_t child = fork();
        if (child == 0) {
          free(p);
          free(opaque(malloc(opaque(500))));
          _exit(0);
        }
        free(p);
        int status = -1;
        if (waitpid(child, &status, 0) != child || status != 0) ++faults;
      }
    });
  }
  for (std::thread& thread : forking) thread.join();
  stop = true;
  other.join();
  EXPECT_EQ(faults, 0);
}

TEST(NextGen, AChildOfAForkStartsItsOwnRoom) {
  wait_for_room();
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) free(opaque(malloc(opaque(200))));
  });
  for (int i = 0; i < 10; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      wait_for_room();
      auto text = std::make_unique<std::vector<int>>(1000, 7);
      _exit((*text)[999] == 7 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  other.join();
}

}  // namespace
