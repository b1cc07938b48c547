// A buffer that grows by half from 64 bytes to 1 GiB with realloc, as a vector of plain data does.
//
// Source: what users of large vectors ask for: growth without copying. Every page of the new part
// is touched once; every page's stamp is checked at the end. An operation is one realloc.
#include "common.h"

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t limit = arguments.number("limit", uint64_t{1} << 30, 64);
  uint64_t rounds = arguments.number("rounds", 1);
  arguments.finish();

  constexpr uint64_t kPage = 4096;
  bench::Team team;
  uint64_t grown = 0;
  double seconds = team.run_here([&] {
    for (uint64_t round = 0; round < rounds; round++) {
      uint64_t size = 64;
      char* data = static_cast<char*>(bench::allocate(size));
      uint64_t stamped = 0;
      for (;;) {
        for (; stamped + sizeof stamped <= size; stamped += kPage) {
          std::memcpy(data + stamped, &stamped, sizeof stamped);
        }
        if (size >= limit) break;
        size = std::min(size + size / 2, limit);
        void* moved = std::realloc(data, size);
        if (moved == nullptr) bench::fail("realloc to %" PRIu64 " bytes failed", size);
        data = static_cast<char*>(moved);
        bench::escape(data);
        grown++;
      }
      for (uint64_t at = 0; at < stamped; at += kPage) {
        uint64_t stamp;
        std::memcpy(&stamp, data + at, sizeof stamp);
        if (stamp != at) bench::fail("the page at offset %" PRIu64 " lost its contents", at);
      }
      bench::release(data);
    }
  });
  bench::Result("realloc_vector", seconds, grown, team).live(limit).print();
}
