// Allocates 800 kB, touches the first and the last page, frees it, again and again.
//
// Source: the loop that image, codec and network programs run with their frame buffers; an
// allocator that maps and unmaps each time spends it all in the kernel.
#include "common.h"

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t rounds = arguments.number("rounds", 300'000);
  uint64_t size = arguments.number("size", 800'000, 16);
  arguments.finish();

  bench::Team team;
  double seconds = team.run_here([&] {
    for (uint64_t i = 0; i < rounds; i++) {
      auto* p = static_cast<char*>(bench::allocate(size));
      std::memcpy(p, &i, sizeof i);
      std::memcpy(p + size - sizeof i, &i, sizeof i);
      bench::escape(p);
      if (std::memcmp(p, p + size - sizeof i, sizeof i) != 0) bench::fail("contents were lost");
      bench::release(p);
    }
  });
  bench::Result("ping_pong_large", seconds, rounds, team).print();
}
