// Takes a long array by calloc, writes to one byte of every so many, frees it, again and again.
//
// Source: arrays of zeros, as numerical programs make them for each step, and the tables of
// compressors, of which all is written to (LibreOffice takes 64 MiB for each stream that it packs);
// and hash tables and sparse arrays, of which little is. An allocator may take new pages, which the
// system clears one by one, or clear what it has.
#include "common.h"

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t rounds = arguments.number("rounds", 30);
  uint64_t size = arguments.number("size", uint64_t{64} << 20, 1);
  uint64_t step = arguments.number("step", 4096, 1);
  arguments.finish();

  bench::Team team;
  double seconds = team.run_here([&] {
    for (uint64_t i = 0; i < rounds; i++) {
      auto* p = static_cast<char*>(std::calloc(1, size));
      if (p == nullptr) bench::fail("calloc(%zu) failed", static_cast<size_t>(size));
      bench::escape(p);
      for (uint64_t at = 0; at < size; at += step) {
        if (p[at] != 0) bench::fail("calloc's memory is not zero");
        p[at] = 1;
      }
      bench::release(p);
    }
  });
  bench::Result("zeroed", seconds, rounds, team).print();
}
