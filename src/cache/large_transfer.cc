#include "cache/large_transfer.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "base/options.h"
#include "cache/places.h"
#include "os/os.h"

namespace loft::large_transfer {

namespace {

constexpr unsigned kPlaces = 8;
constexpr unsigned kShards = 16;                 // by granules; longer objects are rare
constexpr size_t kShardBytes = size_t{1} << 20;  // the limit for each shard

// An object's metadata index and its length in pages. A thread may know nothing else about an
// object that it does not own, because the next owner may change the rest.
//
//   pages 32 | index 32
uint64_t word_of(const Large* object) {
  return metadata::index_of(object) | uint64_t{object->bytes / os::page_size()} << 32;
}
Large* object_of(uint64_t word) { return metadata::at_index<Large>(static_cast<uint32_t>(word)); }
size_t bytes_of(uint64_t word) { return (word >> 32) * os::page_size(); }

constinit Places<kPlaces> shards[kShards];
// The words at the last call of release_idle; 0 also where that call released the object. Relaxed:
// these are hints, and two threads may run release_idle at once when a background thread ends and
// others replace it.
constinit Atomic<uint64_t> seen[kShards][kPlaces];

unsigned places_for(size_t granules) {
  return static_cast<unsigned>(least<size_t>(kShardBytes / (granules << kGranuleLog), kPlaces));
}
static_assert(kShards << kGranuleLog == kShardBytes, "the longest object has one place");

template <class Visit>
void for_each(Visit visit) {
  for (unsigned shard = 0; shard < kShards; ++shard) {
    for (unsigned place = 0; place < kPlaces; ++place) {
      visit(shard, place, shards[shard].peek(place));
    }
  }
}

bool release(unsigned shard, unsigned place, uint64_t word) {
  if (!shards[shard].remove(place, word)) return false;
  large::release(object_of(word));
  return true;
}

}  // namespace

bool put(Large* object) {
  const size_t granules = object->granules;
  if (granules > kShards || object->bytes > get(options.dirty_bytes)) return false;
  object->kept = true;
  return shards[granules - 1].put(word_of(object), places_for(granules));
}

Large* take(size_t bytes) {
  const size_t granules = large::granules_for(bytes);
  if (granules > kShards) return nullptr;
  const uint64_t word = shards[granules - 1].take();
  return word == 0 ? nullptr : object_of(word);
}

bool release_all() {
  bool any = false;
  for_each([&](unsigned shard, unsigned place, uint64_t word) {
    if (word != 0 && release(shard, place, word)) any = true;
  });
  return any;
}

bool release_idle() {
  bool none_left = true;
  for_each([&](unsigned shard, unsigned place, uint64_t word) {
    Atomic<uint64_t>& before = seen[shard][place];
    const bool idle = word != 0 && word == before.load(memory_order_relaxed);
    const bool gone = word == 0 || (idle && release(shard, place, word));
    before.store(gone ? 0 : word, memory_order_relaxed);
    none_left = none_left && gone;
  });
  return none_left;
}

size_t bytes() {
  size_t sum = 0;
  for_each([&](unsigned, unsigned, uint64_t word) { sum += bytes_of(word); });
  return sum;
}

}  // namespace loft::large_transfer
