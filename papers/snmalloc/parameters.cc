#include "snmalloc/parameters.h"

#include <string_view>

#include "engine/settings.h"
#include "os/fault.h"
#include "os/os.h"
#include "snmalloc/config.h"
#include "snmalloc/links.h"

namespace snmalloc {

constinit Parameters parameters{};
constinit uint64_t KeyedLinks::key = 0;

namespace {

using engine::choice;
using engine::setting;

constexpr uint64_t kMostBytes = uint64_t{1} << 40;

void read_batches(Parameters& to) {
  static constexpr const char* kSwitch[] = {"on", "off", nullptr};
  static constexpr const char* kWays[] = {"1", "2", "4", nullptr};
  static constexpr const char* kSets[] = {"1", "2", "4", "8", "16", "32", "64", nullptr};
  static constexpr const char* kEvict[] = {"largest", "lru", "first", "random", nullptr};
  static constexpr const char* kHash[] = {"multiply", "shift", nullptr};
  // The defaults are BatchIt's (4): 8 sets of 2, multiply and shift, the largest goes.
  to.batches = choice("BATCHIT", 0, kSwitch) == 0;
  to.ways = 1u << choice("BATCHIT_WAYS", 1, kWays);
  to.set_bits = choice("BATCHIT_SETS", 3, kSets);
  to.evict = static_cast<Evict>(choice("BATCHIT_EVICT", 0, kEvict));
  to.hash = static_cast<Hash>(choice("BATCHIT_HASH", 0, kHash));
  static constexpr const char* kInbox[] = {"one", "class", nullptr};
  const char* const budget = engine::variable_of("BATCHIT_BUDGET");
  to.adapts = budget != nullptr && std::string_view(budget) == "adaptive";
  if (!to.adapts) {
    to.budget =
        setting("BATCHIT_BUDGET", 0, 0, kMostBytes, "a number of messages; 0: all; adaptive");
    if (to.budget == 0) to.budget = UINT64_MAX;
  }
  to.by_class = choice("BATCHIT_INBOX", 0, kInbox) == 1;
  to.pressure = setting("BATCHIT_PRESSURE", 0, 0, kMostBytes, "a number of messages; 0: off");
}

}  // namespace

void read_parameters() {
  static constexpr const char* kSwitch[] = {"off", "on", nullptr};
  Parameters read{};
  read.budget = UINT64_MAX;  // snmalloc takes all
  read.ways = 1;
  read.outbox_bytes = setting("SNMALLOC_OUTBOX", Config::kOutboxBytes, 0, kMostBytes,
                              "bytes; 0: each free is sent at once");
  read.bucket_bits = static_cast<unsigned>(
      setting("SNMALLOC_BUCKET_BITS", Config::kBucketBits, 1, 8, "a number, 1 to 8"));
  read.decommits = choice("SNMALLOC_DECOMMIT", 0, kSwitch) == 1;
  if (Config::kBatches) read_batches(read);
  // Its top bit is set: no address is that far, so no link that leads somewhere is 0.
  loft::os::random_bytes(&KeyedLinks::key, sizeof(KeyedLinks::key));
  KeyedLinks::key |= uint64_t{1} << 63;
  parameters = read;
}

[[noreturn]] void KeyedLinks::corrupted(uintptr_t object) {
  loft::os::fault(loft::Text() << "the links of a free object were overwritten: "
                               << reinterpret_cast<const void*>(object));
}

}  // namespace snmalloc
