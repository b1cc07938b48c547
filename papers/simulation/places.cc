#include "simulation/places.h"

#include <execinfo.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace machine::places {

bool noting = false;

namespace {

constexpr int kDepth = 10;

using Chain = std::array<void*, kDepth>;
struct Cost {
  uint64_t cycles = 0, waits = 0;
  std::unordered_set<uintptr_t> lines;
};
std::map<Chain, Cost> costs;

// The source's lines, from the allocator's innermost one to its outermost.
void print(const Chain& chain) {
  // Where the program begins, for it is position-independent.
  const uintptr_t base = _r_debug.r_map->l_addr;
  std::string command = "addr2line -Cfpsie /proc/" + std::to_string(getpid()) + "/exe";
  for (void* const each : chain) {
    if (each == nullptr) break;
    std::array<char, 32> text{};
    // A return address is after the call.
    std::snprintf(text.data(), text.size(), " %" PRIxPTR,
                  reinterpret_cast<uintptr_t>(each) - 1 - base);
    command += text.data();
  }
  FILE* const pipe = popen(command.c_str(), "r");
  std::array<char, 4096> line{};
  while (pipe != nullptr && std::fgets(line.data(), line.size(), pipe) != nullptr) {
    const auto is_of = [&](const char* file) { return std::strstr(line.data(), file) != nullptr; };
    if (is_of(" simulate.cc:")) break;
    const bool is_own =
        is_of(" places.cc:") || is_of(" machine.cc:") || is_of(" tsan.cc:") || is_of(" system.cc:");
    if (!is_own) std::fprintf(stderr, "    %s", line.data());
  }
  if (pipe != nullptr) pclose(pipe);
}

}  // namespace

void note(uint64_t cycles, uintptr_t line) {
  Chain chain{};
  backtrace(chain.data(), kDepth);
  Cost& cost = costs[chain];
  cost.cycles += cycles;
  ++cost.waits;
  if (line != 0) cost.lines.insert(line);
}

void print(unsigned count) {
  std::vector<std::pair<Chain, const Cost*>> all;
  uint64_t sum = 0;
  for (const auto& [chain, cost] : costs) {
    all.emplace_back(chain, &cost);
    sum += cost.cycles;
  }
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.second->cycles > b.second->cycles; });
  all.resize(std::min<size_t>(all.size(), count));
  for (const auto& [chain, cost] : all) {
    std::fprintf(stderr, "%.1f %% of the cycles waited, %" PRIu64 " times, for %zu lines\n",
                 100.0 * static_cast<double>(cost->cycles) / static_cast<double>(sum), cost->waits,
                 cost->lines.size());
    print(chain);
  }
}

}  // namespace machine::places
