// What eight threads of loft cost each other beside two, each with a processor of its own: locks
// found held, locked instructions, and lines that one processor wrote and another needs, for a
// thousand objects. Counts of the simulated machine, so that they depend on no load. Nothing is
// purged by time: there is no background thread here, and slow paths would do its work. And what
// NextGen-Malloc's room serves, and takes over.
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

// What a simulation said.
class Said {
 public:
  explicit Said(const std::string& command);

  double operator[](const std::string& name) const {
    const size_t at = line_.find("\"" + name + "\": ");
    EXPECT_NE(at, std::string::npos) << name;
    return at == std::string::npos ? 0 : std::strtod(&line_[at + name.size() + 4], nullptr);
  }

 private:
  std::string line_;
};

Said::Said(const std::string& command) {
  std::array<char, 2048> text{};
  FILE* const pipe = popen(("LOFT_DECAY_MS=0 " + command).c_str(), "r");
  EXPECT_TRUE(pipe != nullptr && fgets(text.data(), text.size(), pipe) != nullptr);
  EXPECT_EQ(pipe == nullptr ? -1 : pclose(pipe), 0);
  line_ = text.data();
}

Counts simulated(const Pattern& pattern, unsigned heaps) {
  const Said said(SIMULATE_LOFT " --heaps=" + std::to_string(heaps) + " " + pattern.arguments);
  const double thousands = said["operations"] / 1000;
  return {said["locks"] / thousands, said["lock_waits"] / thousands, said["atomics"] / thousands,
          said["moves"] / thousands};
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

// A program whose pages, with loft's, do not all have translations.
Said with_room(const std::string& simulate) {
  return Said(simulate + " --pattern=program --heaps=1 --think=1000 --objects=1024 --warm=4096" +
              " --cache=512 --pages=128 --room-cache=32");
}

TEST(SimulatedRoom, ServesAllCalls) {
  for (const char* const simulate : {SIMULATE_NEXTGEN, SIMULATE_NEXTGEN_ALONE}) {
    const Said said = with_room(simulate);
    // An object of before the room ran is freed by its thread.
    EXPECT_GE(said["served"], 2 * said["operations"] - 1);
    EXPECT_LE(said["unserved"], 1);
    // A request and its answer are a line each way, twice for each object.
    EXPECT_GE(said["transfers"], 4 * said["operations"]);
  }
}

TEST(SimulatedRoom, TakesOverWhatTheProgramMissed) {
  EXPECT_LE(with_room(SIMULATE_NEXTGEN)["page_load_misses"],
            0.8 * with_room(SIMULATE_LOFT)["page_load_misses"]);
}

}  // namespace
