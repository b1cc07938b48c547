// Threads replace random objects of a heap that is large in addresses, and now and then look how
// many mappings the kernel has for it.
//
// Source: servers that died of vm.max_map_count, 65 530 lines in /proc/self/maps, with most of the
// memory still free (jemalloc issues 1011 and 1256). The heap is a hundred gibibytes at its default
// size, nearly all of it in objects of 32 KiB to 64 MiB of which the first and the last page are
// written, so that it fits into a small machine; beside them small ones, and some that grow and
// shrink by realloc. Huge pages are switched off, because two in each object would be more than the
// machine has, as a limit makes sure of. The result is the most anonymous mappings that there were
// beyond those at the start. An operation is one object replaced.
#include <sys/prctl.h>

#include "memory.h"

namespace {

// Sizes from min to 2^powers * min, each power of two as likely as the others.
struct Group {
  uint32_t min;
  uint32_t powers;
  uint32_t slots;

  uint32_t draw(bench::Random& random) const {
    uint32_t low = min << random.below(powers);
    return random.between(low, 2 * low);
  }
};

struct Object {
  uint32_t slot;
  uint32_t size;
};

constexpr Group sized(uint32_t min, uint32_t powers, uint64_t bytes) {
  uint64_t average = (uint64_t{min} << powers) * 3 / 2 / powers;
  return {min, powers, static_cast<uint32_t>(std::max<uint64_t>(bytes / average, 1))};
}

// The lines without a file. Allocates nothing.
uint64_t anonymous_mappings() {
  int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (fd < 0) bench::fail("cannot read /proc/self/maps");
  static char text[1 << 16];
  uint64_t count = 0;
  bool file = false;
  for (ssize_t length; (length = read(fd, text, sizeof text)) > 0;) {
    for (ssize_t i = 0; i < length; i++) {
      if (text[i] == '/') file = true;
      if (text[i] != '\n') continue;
      if (!file) count++;
      file = false;
    }
  }
  close(fd);
  return count;
}

void write_ends(Object* object) { reinterpret_cast<char*>(object)[object->size - 1] = 0x5A; }

Object* make(uint32_t slot, uint32_t size) {
  auto* object = static_cast<Object*>(bench::allocate(size));
  *object = {slot, size};
  write_ends(object);
  return object;
}

Object* checked(Object* object, uint32_t slot) {
  if (object != nullptr &&
      (object->slot != slot || reinterpret_cast<char*>(object)[object->size - 1] != 0x5A)) {
    bench::fail("the object in slot %u was overwritten", slot);
  }
  return object;
}

Object* resize(Object* object, uint32_t size) {
  object = static_cast<Object*>(std::realloc(object, size));
  if (object == nullptr) bench::fail("realloc(%u) failed", size);
  object->size = size;
  write_ends(object);
  return object;
}

constexpr uint64_t kLarge = 16;  // one operation in so many
constexpr uint64_t kRealloc = 256;

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t threads = arguments.number("threads", 2, 1, 1000);
  uint64_t mib = arguments.number("mib", 100 << 10, 64, 1 << 20);
  uint64_t rounds = arguments.number("rounds", 1'000'000, threads);
  uint64_t looks = arguments.number("looks", 50, 1, 10'000);
  uint64_t limit_mib = arguments.number("limit-mib", 8 << 10, 64);
  arguments.finish();
  if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0) bench::fail("cannot switch huge pages off");

  const Group small = sized(16, 11, mib << 20 >> 9);
  const Group large = sized(32 << 10, 11, mib << 20);
  const Group grown = sized(4 << 10, 10, mib << 20 >> 8);
  // The slots of the groups, one group after another.
  const uint32_t first_large = small.slots;
  const uint32_t first_grown = first_large + large.slots;
  bench::Table<std::atomic<Object*>> table(first_grown + grown.slots);
  bench::Team team;
  uint64_t before = anonymous_mappings();
  uint64_t most = 0;
  double seconds = team.run(threads, [&](size_t index) {
    bench::Random random(index + 1);
    auto replace = [&](const Group& group, uint32_t first) {
      uint32_t slot = first + random.below(group.slots);
      std::free(checked(table[slot].exchange(make(slot, group.draw(random))), slot));
    };
    uint64_t share = rounds / threads + (index < rounds % threads ? 1 : 0);
    for (uint64_t i = 0; i < share; i++) {
      if (i % kRealloc == 1) {
        uint32_t slot = first_grown + random.below(grown.slots);
        Object* object = checked(table[slot].exchange(nullptr), slot);
        uint32_t size = grown.draw(random);
        object = object == nullptr ? make(slot, size) : resize(object, size);
        std::free(checked(table[slot].exchange(object), slot));
      } else if (i % kLarge == 0) {
        replace(large, first_large);
      } else {
        replace(small, 0);
      }
      if (i % 1024 == 0) bench::fail_above(limit_mib);
      if (index == 0 && i % (share / looks + 1) == 0) most = std::max(most, anonymous_mappings());
    }
  });
  bench::fail_above(limit_mib);
  most = std::max(most, anonymous_mappings());
  uint64_t bytes = 0;
  for (uint32_t slot = 0; slot < table.size(); slot++) {
    Object* object = checked(table[slot].load(), slot);
    if (object == nullptr) continue;
    bytes += object->size;
    std::free(object);
  }
  bench::Result("mappings", seconds, rounds, team)
      .number("live_at_end_mib", static_cast<double>(bytes >> 20))
      .number("most_mappings", static_cast<double>(most > before ? most - before : 0))
      .print();
}
