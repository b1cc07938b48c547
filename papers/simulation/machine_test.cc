// The simulated machine, by code that is compiled as the engines are.
#include "simulation/machine.h"

#include <gtest/gtest.h>
#include <sys/personality.h>

#include <atomic>
#include <cstdio>
#include <string>
#include <vector>

#include "engine/spin_lock.h"
#include "os/os.h"

namespace {

template <class Body>
machine::Tally run(unsigned processors, const Body& body) {
  machine::tally = {};
  machine::run(processors, body);
  return machine::tally;
}

struct alignas(64) Word {
  std::atomic<uint32_t> value{0};
};

TEST(Machine, EachWriteOfALineThatTwoWriteMovesIt) {
  Word word;
  constexpr unsigned kWrites = 100;
  const machine::Tally tally = run(2, [&](unsigned) {
    std::atomic<uint32_t>& value = word.value;
    const machine::Inside inside;
    for (unsigned i = 0; i < kWrites; ++i) value.fetch_add(1, std::memory_order_acq_rel);
  });
  EXPECT_EQ(word.value.load(), 2 * kWrites);
  EXPECT_EQ(tally.atomics, 2 * kWrites);
  EXPECT_EQ(tally.fetches, 1u);
  EXPECT_EQ(tally.moves, 2 * kWrites - 1);
}

TEST(Machine, ReadersShareALineUntilItIsWritten) {
  constexpr unsigned kReaders = 100;
  Word word;
  const machine::Tally tally = run(kReaders, [&](unsigned processor) {
    std::atomic<uint32_t>& value = word.value;
    const machine::Inside inside;
    for (unsigned i = 0; i < 10; ++i) value.load(std::memory_order_acquire);
    if (processor != 0) return;
    machine::advance(1'000'000);
    value.store(1, std::memory_order_release);
  });
  EXPECT_EQ(tally.fetches, 1u);
  // To each other reader, and from all of them.
  EXPECT_EQ(tally.moves, kReaders - 1 + 1);
}

TEST(Machine, WhatOneProcessorUsesStaysThere) {
  Word words[2];
  const machine::Tally tally = run(2, [&](unsigned processor) {
    std::atomic<uint32_t>& value = words[processor].value;
    const machine::Inside inside;
    for (unsigned i = 0; i < 100; ++i) value.fetch_add(1);
  });
  EXPECT_EQ(tally.fetches, 2u);
  EXPECT_EQ(tally.moves, 0u);
}

// The looks of a spin that would find the lock held are left out, the line's ways to each look are
// not. Nobody sleeps, however long it takes.
TEST(Machine, WhoeverSpinsLooksWhenTheLineIsWritten) {
  constexpr unsigned kWaiters = 9;
  constexpr uint64_t kHeld = 100'000'000;
  engine::SpinLock lock;
  std::atomic<uint64_t> last{0};
  const machine::Tally tally = run(1 + kWaiters, [&](unsigned processor) {
    const machine::Inside inside;
    if (processor != 0) machine::advance(1000);
    const engine::SpinGuard guard(lock);
    if (processor == 0) machine::advance(kHeld);
    last.store(machine::clock(), std::memory_order_relaxed);
  });
  EXPECT_EQ(lock.waits(), kWaiters);
  // Each has come to the lock, and each looks again after each release.
  EXPECT_GE(tally.moves, kWaiters + kWaiters * (kWaiters + 1) / 2);
  EXPECT_LT(last.load(), kHeld + kWaiters * 10 * machine::kMiss);
}

// As often as it may, and to the end.
TEST(Machine, ASpinOfManyLooksDoesNotSleep) {
  struct alignas(64) {
    engine::SpinLock lock;
    std::atomic<uint32_t> beside{0};
  } line;
  engine::SpinLock::let_others(false);
  uint64_t released = 0, taken = 0;
  run(3, [&](unsigned processor) {
    const machine::Inside inside;
    // Somebody is always ready, or spins would end for want of others.
    if (processor == 2) {
      machine::advance(1'000'000'000);
      machine::let_others();
      return;
    }
    if (processor == 1) machine::advance(1000);
    const engine::SpinGuard guard(line.lock);
    if (processor == 1) {
      taken = machine::clock();
    } else {
      for (uint32_t i = 0; i < 100'000; ++i) line.beside.store(i, std::memory_order_release);
      released = machine::clock();
    }
  });
  engine::SpinLock::let_others(true);
  EXPECT_EQ(line.lock.waits(), 1u);
  EXPECT_LT(taken, released + 10 * machine::kMiss);
}

// Waits of a second processor that comes after so many cycles for a lock held for 10 000.
uint64_t waits_after(uint64_t cycles) {
  engine::SpinLock lock;
  run(2, [&](unsigned processor) {
    const machine::Inside inside;
    if (processor != 0) machine::advance(cycles);
    const engine::SpinGuard guard(lock);
    machine::advance(10'000);
  });
  EXPECT_EQ(lock.acquired(), 2u);
  return lock.waits();
}

TEST(Machine, ALockIsFoundHeldWhileItsHolderIsInside) {
  EXPECT_EQ(waits_after(5'000), 1u);
  EXPECT_EQ(waits_after(15'000), 0u);
}

TEST(Machine, WhoeverSleepsGoesOnAfterTheOneThatWakes) {
  Word word;
  uint64_t woken = 0;
  run(2, [&](unsigned processor) {
    const machine::Inside inside;
    if (processor == 0) {
      while (word.value.load(std::memory_order_acquire) == 0) {
        loft::os::wait_on_word(&word.value, 0);
      }
      woken = machine::clock();
    } else {
      machine::advance(100'000);
      word.value.store(1, std::memory_order_release);
      loft::os::wake_one(&word.value);
    }
  });
  EXPECT_GE(woken, 100'000 + 2 * machine::kSystemCall);
}

TEST(Machine, ThreadLocalStorageIsEachProcessorsOwn) {
  static thread_local unsigned mine = 0;
  Word word;
  run(8, [&](unsigned processor) {
    const machine::Inside inside;
    for (unsigned i = 0; i < 10; ++i) {
      mine += processor;
      word.value.fetch_add(1);
    }
    EXPECT_EQ(mine, 10 * processor);
  });
  EXPECT_EQ(mine, 0u);
}

// The misses of a processor that reads `lines` lines, and all of them again.
machine::Misses misses_twice(size_t lines, machine::Shape shape) {
  std::vector<Word> words(lines);
  machine::Misses misses;
  shape.processors = 1;
  machine::run(shape, [&](unsigned) {
    for (int round = 0; round < 2; ++round) {
      for (const Word& each : words) machine::use(&each, sizeof(each), false);
    }
    misses = machine::misses_of_program();
  });
  return misses;
}

TEST(Machine, ACacheHasRoomForItsLinesAlone) {
  machine::Shape shape{};
  EXPECT_EQ(misses_twice(1000, shape).loads, 1000u);
  shape.lines = 64;
  EXPECT_EQ(misses_twice(64, shape).loads, 64u);
  EXPECT_EQ(misses_twice(128, shape).loads, 256u);
}

TEST(Machine, TranslationsAreOfPages) {
  constexpr size_t kPage = 64;  // lines
  machine::Shape shape{};
  shape.pages = 8;
  // One more, as the first line may be within a page.
  const machine::Misses few = misses_twice(7 * kPage, shape);
  EXPECT_GE(few.page_loads, 7u);
  EXPECT_LE(few.page_loads, 8u);
  EXPECT_GE(misses_twice(16 * kPage, shape).page_loads, 32u);
}

TEST(Machine, ALineThatMadeRoomForAnotherIsHeldNoMore) {
  std::vector<Word> words(8 + 1);
  machine::tally = {};
  machine::run(machine::Shape{.processors = 2, .lines = 8}, [&](unsigned processor) {
    if (processor == 0) {
      for (const Word& each : words) machine::access(&each, sizeof(each), true);
    } else {
      machine::advance(1'000'000);
      machine::let_others();
      machine::access(&words.front(), sizeof(Word), false);
      machine::access(&words.back(), sizeof(Word), false);
    }
  });
  EXPECT_EQ(machine::tally.fetches, words.size() + 1);
  EXPECT_EQ(machine::tally.moves, 1u);
}

Word question, answer;

// Answers what it finds, for ever.
void answer_questions() {
  for (;;) {
    const uint32_t asked = question.value.load(std::memory_order_acquire);
    if (asked != answer.value.load(std::memory_order_relaxed)) {
      machine::advance(10'000);
      answer.value.store(asked, std::memory_order_release);
    } else {
      loft::os::pause_briefly();
    }
  }
}

uint64_t cycles_of_an_answer(uint64_t transfer) {
  constexpr uint32_t kQuestions = 100;
  uint64_t cycles = 0;
  question.value = answer.value = 0;
  machine::run(machine::Shape{.processors = 1, .room = true, .transfer = transfer}, [&](unsigned) {
    const machine::Inside inside;
    EXPECT_TRUE(machine::start_room(answer_questions));
    EXPECT_FALSE(machine::start_room(answer_questions));
    for (uint32_t i = 1; i <= kQuestions; ++i) {
      const uint64_t before = machine::clock();
      question.value.store(i, std::memory_order_release);
      while (answer.value.load(std::memory_order_acquire) != i) loft::os::pause_briefly();
      cycles = machine::clock() - before;
    }
    EXPECT_GE(machine::misses_of_room().transfers, kQuestions);
  });
  return cycles;
}

TEST(Machine, ARoomAnswersInItsOwnTime) {
  const uint64_t slow = cycles_of_an_answer(machine::kMiss);
  const uint64_t fast = cycles_of_an_answer(0);
  EXPECT_GE(fast, 10'000u);
  EXPECT_LE(fast, 10'200u);
  // The question comes, the answer's line is taken from its last reader, the answer comes. Others
  // see a write before its writer goes on, so the question's line is not waited for twice.
  EXPECT_NEAR(static_cast<double>(slow - fast), 3 * machine::kMiss, 100);
}

TEST(Machine, WithoutAProcessorThereIsNoRoom) {
  machine::run(2, [&](unsigned) { EXPECT_FALSE(machine::start_room(answer_questions)); });
}

std::string printed(const char* command) {
  std::string text;
  FILE* const pipe = popen(command, "r");
  char buffer[1024];
  while (pipe != nullptr && fgets(buffer, sizeof(buffer), pipe) != nullptr) text += buffer;
  EXPECT_EQ(pipe == nullptr ? -1 : pclose(pipe), 0);
  return text;
}

// Lines that the program's own accesses moved, an object of eight heaps.
double own_moves(const char* simulate, const std::string& pattern) {
  const std::string said = printed(
      (simulate + (" --heaps=8 --warm=1024 --objects=8192 --writes=10000 --pattern=" + pattern))
          .c_str());
  const std::string name = "\"own_moves\": ";
  const size_t at = said.find(name);
  if (at == std::string::npos) {
    ADD_FAILURE() << said;
    return 0;
  }
  return std::stod(said.substr(at + name.size())) / 8192;
}

TEST(Simulate, ACacheThatKeepsWhatOthersAllocatedSharesLines) {
  EXPECT_GT(own_moves(SIMULATE_KEEPING, "cache-scratch"), 80);
  EXPECT_LT(own_moves(SIMULATE_LOFT, "cache-scratch"), 0.01);
  EXPECT_EQ(own_moves(SIMULATE_KEEPING, "cache-thrash"), 0);
  EXPECT_EQ(own_moves(SIMULATE_LOFT, "cache-thrash"), 0);
}

TEST(Simulate, WhoeverGetsAnArrayReadsWhatAnotherThreadWrote) {
  EXPECT_GT(own_moves(SIMULATE_LOFT, "larson"), 0.1);
}

TEST(Simulate, CountsAreTheSameInEachRun) {
  const int before = personality(0xffffffff);
  if (personality(static_cast<unsigned long>(before) | ADDR_NO_RANDOMIZE) == -1) {
    GTEST_SKIP() << "addresses are random, and hashes of them with them";
  }
  personality(static_cast<unsigned long>(before));
  for (const std::string pattern : {"producers", "exchange", "larson"}) {
    const std::string command =
        SIMULATE_LOFT " --heaps=8 --warm=1 --objects=1 --pattern=" + pattern;
    const std::string first = printed(command.c_str());
    EXPECT_NE(first.find("\"operations\": 8192"), std::string::npos);
    EXPECT_EQ(first, printed(command.c_str()));
  }
}

}  // namespace
