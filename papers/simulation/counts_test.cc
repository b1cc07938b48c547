// What eight threads of loft cost each other beside two, each with a processor of its own: locks
// found held, locked instructions, and lines that one processor wrote and another needs, for a
// thousand objects. Counts of the simulated machine, so that they depend on no load. Nothing is
// purged by time: there is no background thread here, and slow paths would do its work.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <ostream>
#include <string>

namespace {

struct Pattern {
  const char* name;
  const char* arguments;
  // How much more of a thousand objects eight threads may cost than two.
  double atomics, moves;
};

void PrintTo(const Pattern& pattern, std::ostream* out) { *out << pattern.name; }

// As measured, and a quarter more.
constexpr std::array<Pattern, 5> kPatterns = {{
    {"pairs", "--pattern=pairs --warm=262144 --objects=131072", 5, 30},
    // A consumer frees for four owners, and has a batch of fewer objects for each.
    {"producers", "--pattern=producers --warm=262144 --objects=131072", 60, 300},
    // And here for seven.
    {"exchange", "--pattern=exchange --warm=262144 --objects=131072", 120, 650},
    // Each object is a message, and a lock of its heap or two. Once for each MiB that goes, and
    // once where it arrives, all write to the line of space/unused.h.
    {"buffers, pairs", "--pattern=pairs --message=4 --min=32768 --max=1048576 --objects=1 --warm=1",
     50, 1500},
    // So many that the lengths, which are drawn by lot, have the same mean for both.
    {"buffers, exchange",
     "--pattern=exchange --message=4 --min=32768 --max=262144 --objects=32768 --warm=1", 300, 3500},
}};

struct Counts {
  double locks, waits, atomics, moves;
};

Counts simulated(const Pattern& pattern, unsigned heaps) {
  const std::string command = "LOFT_DECAY_MS=0 " SIMULATE_LOFT " --heaps=" + std::to_string(heaps) +
                              " " + pattern.arguments;
  std::array<char, 1024> text{};
  FILE* const pipe = popen(command.c_str(), "r");
  EXPECT_TRUE(pipe != nullptr && fgets(text.data(), text.size(), pipe) != nullptr);
  EXPECT_EQ(pipe == nullptr ? -1 : pclose(pipe), 0);
  const std::string line = text.data();
  const auto number = [&](const std::string& name) {
    const size_t at = line.find("\"" + name + "\": ");
    EXPECT_NE(at, std::string::npos) << name;
    return at == std::string::npos ? 0 : std::strtod(&line[at + name.size() + 4], nullptr);
  };
  const double thousands = number("operations") / 1000;
  return {number("locks") / thousands, number("lock_waits") / thousands,
          number("atomics") / thousands, number("moves") / thousands};
}

class SimulatedCounts : public testing::TestWithParam<Pattern> {};

TEST_P(SimulatedCounts, EightThreadsBesideTwo) {
  const Pattern& pattern = GetParam();
  std::array<Counts, 2> all{};
  for (const unsigned heaps : {2u, 8u}) {
    const Counts& counts = all[heaps / 8] = simulated(pattern, heaps);
    std::printf(
        "%s, %u threads: %.1f locks a thousand objects, %.1f waited, %.1f atomics, %.1f lines "
        "moved\n",
        pattern.name, heaps, counts.locks, counts.waits, counts.atomics, counts.moves);
  }
  const auto [two, eight] = all;
  // A heap's own lock, mostly: a cache hits a little more or less often.
  EXPECT_LE(eight.locks, 1.01 * two.locks + 2);
  EXPECT_LE(eight.waits, two.waits + 1);
  EXPECT_LE(eight.atomics, two.atomics + pattern.atomics);
  EXPECT_LE(eight.moves, two.moves + pattern.moves);
}

std::string test_name(const testing::TestParamInfo<Pattern>& tested) {
  std::string name = tested.param.name;
  std::erase_if(name, [](char c) { return c == ',' || c == ' '; });
  return name;
}

INSTANTIATE_TEST_SUITE_P(Loft, SimulatedCounts, testing::ValuesIn(kPatterns), test_name);

}  // namespace
