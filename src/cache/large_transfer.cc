#include "cache/large_transfer.h"

#include "base/bits.h"
#include "cache/places.h"
#include "os/os.h"

namespace loft::large_transfer {

namespace {

constexpr unsigned kPlaces = 8;
constexpr unsigned kShards = 16;                 // by granules; longer objects are rare
constexpr size_t kShardBytes = size_t{1} << 20;  // what each may hold

// An object's place in the metadata and its length in pages: all that a thread may know of an
// object that it does not have, as whoever takes it next may change the rest.
//
//   pages 32 | index 32
uint64_t word_of(const Large* object) {
  return metadata::index_of(object) | uint64_t{object->bytes / os::page_size()} << 32;
}
Large* object_of(uint64_t word) { return metadata::at_index<Large>(static_cast<uint32_t>(word)); }
size_t bytes_of(uint64_t word) { return (word >> 32) * os::page_size(); }

constinit Places<kPlaces> shards[kShards];
constinit uint64_t seen[kShards][kPlaces];  // at the last call of release_idle

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
  if (granules > kShards) return false;
  object->kept = true;
  return shards[granules - 1].put(word_of(object), places_for(granules));
}

Large* take(size_t bytes) {
  const size_t granules = large::granules_for(bytes);
  if (granules > kShards) return nullptr;
  const uint64_t word = shards[granules - 1].take();
  return word == 0 ? nullptr : object_of(word);
}

void release_all() {
  for_each([](unsigned shard, unsigned place, uint64_t word) {
    if (word != 0) release(shard, place, word);
  });
}

bool release_idle() {
  bool none_left = true;
  for_each([&](unsigned shard, unsigned place, uint64_t word) {
    const bool idle = word == seen[shard][place];
    seen[shard][place] = word;
    if (word != 0 && !(idle && release(shard, place, word))) none_left = false;
  });
  return none_left;
}

size_t bytes() {
  size_t sum = 0;
  for_each([&](unsigned, unsigned, uint64_t word) { sum += bytes_of(word); });
  return sum;
}

}  // namespace loft::large_transfer
