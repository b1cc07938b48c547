// Buffers: each thread has a table of large objects, of which it frees a random one and puts one of
// a random size in its place. A word of every page is written, and those of the first and the last
// one are checked before the object goes.
//
// Source: databases, image and video services whose buffers of tens of kilobytes to megabytes come
// and go in many threads (ClickHouse issues 2773 and 52608, mimalloc issue 447). What one pays for
// are page faults where memory goes back to the system each time, and locks where all threads share
// the lists of large objects. An operation is one replacement.
#include "common.h"

namespace {

constexpr uint64_t kPage = 4096;

uint64_t* last_word(char* object, uint64_t size) {
  return reinterpret_cast<uint64_t*>(object + (size - 1) / kPage * kPage);
}

struct Buffer {
  char* object;
  uint64_t size;
};

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  const uint64_t threads = arguments.number("threads", 2, 1, 1000);
  const uint64_t slots = arguments.number("slots", 100, 1, 1'000'000);
  const uint64_t rounds = arguments.number("rounds", 300'000);  // of each thread
  // A word fits behind the begin of the last page.
  const auto min = static_cast<uint32_t>(arguments.number("min", 32'768, 8, 1 << 30));
  const auto max = static_cast<uint32_t>(arguments.number("max", 262'144, min, 1 << 30));
  arguments.finish();

  bench::Team team;
  bench::Table<Buffer> table(threads * slots);
  const auto fill = [&](uint64_t at, bench::Random& random) {
    const uint64_t size = random.between(min, max) / 8 * 8;
    Buffer& buffer = table[at];
    buffer = {static_cast<char*>(bench::allocate(size)), size};
    for (uint64_t page = 0; page < size; page += kPage) {
      *reinterpret_cast<uint64_t*>(buffer.object + page) = at;
    }
  };
  const auto clear = [&](uint64_t at) {
    const Buffer& buffer = table[at];
    if (*reinterpret_cast<uint64_t*>(buffer.object) != at ||
        *last_word(buffer.object, buffer.size) != at) {
      bench::fail("object in slot %" PRIu64 " was overwritten", at);
    }
    bench::release(buffer.object);
  };
  const double seconds = team.run(threads, [&](size_t index) {
    bench::Random random(index + 1);
    const uint64_t first = index * slots;
    for (uint64_t i = 0; i < slots; i++) fill(first + i, random);
    for (uint64_t i = 0; i < rounds; i++) {
      const uint64_t at = first + random.below(static_cast<uint32_t>(slots));
      clear(at);
      fill(at, random);
    }
    for (uint64_t i = 0; i < slots; i++) clear(first + i);
  });
  bench::Result("large_replacement", seconds, threads * (rounds + slots), team)
      .live(threads * slots * ((uint64_t{min} + max) / 2))
      .print();
}
