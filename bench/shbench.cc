// Threads that allocate rows of objects of one size after the other, and free a third of the rows
// last in, first out, a third in the order of allocation, and a third, row by row backwards, only
// when all sizes are through: those of this thread, or of another (--swap=1).
//
// Source: SmartHeap's stress tests (MicroQuill), as mimalloc-bench describes them. Without --swap
// it is sh6bench: some objects are freed in the usual order, last allocated and first freed, others
// in the reverse. With it, it is sh8bench, many threads: besides, some are freed by other threads.
// What is kept changes hands in places that all threads share, by an atomic exchange. Of small
// sizes the rows are longer. An operation is one object.
#include <utility>

#include "common.h"

namespace {

struct Kept {
  uint64_t length;
  uint64_t* objects[1];
};

// An object holds its number in its row, or in its list.
void release(uint64_t* p, uint64_t number) {
  if (*p != number) bench::fail("object %" PRIu64 " was overwritten", number);
  bench::release(p);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t threads = arguments.number("threads", 1, 1, 1000);
  uint64_t rounds = arguments.number("rounds", 10'000);
  uint64_t row = arguments.number("row", 400, 1, 1'000'000);
  uint64_t min = arguments.number("min", 8, 8, 1 << 20);
  uint64_t max = arguments.number("max", 1000, min, 1 << 20);
  bool swap = arguments.number("swap", 0, 0, 1) != 0;
  arguments.finish();

  // Sizes grow by an eighth, and by a word at least; rows shrink as much.
  auto next = [](uint64_t size) { return size + (std::max<uint64_t>(size / 8, 8) & ~uint64_t{7}); };
  auto length = [&](uint64_t size) { return std::max<uint64_t>(row * min / size, 4); };
  uint64_t sum = 0;
  for (uint64_t size = min; size <= max; size = next(size)) sum += length(size);

  bench::Team team;
  // One list for each thread and one for each place; every list has room for all objects of a
  // round.
  size_t words = sum + 1;
  bench::Table<uint64_t*> lists(2 * threads * words);
  bench::Table<uint64_t*> rows(threads * row + 4 * threads);
  bench::Table<std::atomic<Kept*>> places(threads);
  auto list = [&](size_t i) { return reinterpret_cast<Kept*>(&lists[i * words]); };
  for (size_t i = 0; i < threads; i++) places[i] = list(threads + i);
  std::atomic<uint64_t> freed{0};
  auto release_all = [&](Kept* kept) {
    for (uint64_t i = kept->length; i-- > 0;) release(kept->objects[i], i);
    freed.fetch_add(std::exchange(kept->length, 0), std::memory_order_relaxed);
  };
  double seconds = team.run(threads, [&](size_t index) {
    bench::Random random(index + 1);
    uint64_t** objects = &rows[index * (row + 4)];
    Kept* kept = list(index);
    for (uint64_t round = 0; round < rounds; round++) {
      uint64_t turn = round;
      uint64_t count = 0;
      for (uint64_t size = min; size <= max; size = next(size), turn++) {
        uint64_t many = length(size);
        bool stays = turn % 3 == 2;
        for (uint64_t i = 0; i < many; i++) {
          objects[i] = static_cast<uint64_t*>(bench::allocate(size));
          *objects[i] = stays ? kept->length : i;
          if (stays) kept->objects[kept->length++] = objects[i];
        }
        if (stays) continue;
        for (uint64_t i = 0; i < many; i++) {
          uint64_t at = turn % 3 == 0 ? many - 1 - i : i;
          release(objects[at], at);
        }
        count += many;
      }
      freed.fetch_add(count, std::memory_order_relaxed);
      if (swap) {
        // Acquire and release: the taker reads the list and the objects that the giver wrote.
        kept = places[random.below(static_cast<uint32_t>(threads))].exchange(
            kept, std::memory_order_acq_rel);
      }
      release_all(kept);
    }
  });
  for (size_t i = 0; i < 2 * threads; i++) release_all(list(i));
  if (freed != threads * rounds * sum) bench::fail("%" PRIu64 " objects freed", freed.load());
  bench::Result(swap ? "sh8bench" : "sh6bench", seconds, freed, team).print();
}
