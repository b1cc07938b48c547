// The paper's hand-shake with the room in libc's place: every function is served by the dedicated
// thread, whichever thread asks, and what cannot be is served all the same.
#include <errno.h>
#include <gtest/gtest.h>
#include <malloc.h>
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

extern "C" unsigned long loft_nextgen_served() noexcept;

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
  void* object = opaque(malloc(100));
  const unsigned long before = loft_nextgen_served();
  for (int i = 0; i < 1000; ++i) {
    void* p = opaque(malloc(opaque(64)));
    memset(p, i, 64);
    free(p);
  }
  object = opaque(realloc(object, 5000));  // waits for the last free, too
  EXPECT_EQ(loft_nextgen_served() - before, 2001u);
  free(object);
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
