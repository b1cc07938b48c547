// The whole surface, as the input says: which call, by which of four threads, on which object; now
// and then a fork, whose child goes on for a while and ends with everything freed. model.h judges
// every object, and at the end of each input nothing is allocated any more, by the books as well.
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iterator>
#include <memory>
#include <string_view>
#include <utility>

#include "base/options.h"
#include "hands.h"
#include "loft/loft.h"
#include "scene.h"
#include "user_heaps.h"

namespace {

using fuzz::kNoHeap;
using fuzz::Model;
using fuzz::Object;
using fuzz::Scene;
using fuzz::wrong;

constexpr int kMostSteps = 400;
constexpr int kStepsOfChild = 12;

// No thread of loft's own, which would work at moments of its own.
constexpr std::string_view kOwnThread = "background";
constexpr std::string_view kOtherThread = "socket";
constexpr const char* kOptionNames[] = {
#define LOFT_OPTION_NAME(kind, name, value, choices, help) #name,
    LOFT_OPTIONS(LOFT_OPTION_NAME)
#undef LOFT_OPTION_NAME
        "none"};
constexpr const char* kOptionValues[] = {"0",   "1",     "4K",    "64K",    "1M",      "24M",
                                         "off", "soft",  "hard",  "prefer", "auto",    "continue",
                                         "any", "fault", "never", "zero",   "1000000", "on"};

void reset_options() {
  const uint64_t owner = loft::get(loft::options.owner);
#define LOFT_RESET(kind, name, value, choices, help) loft::options.name.store(value);
  LOFT_OPTIONS(LOFT_RESET)
#undef LOFT_RESET
  loft::options.owner.store(owner);
  if (loft_option_set(kOwnThread.data(), "off") != 0) wrong("no option %s", kOwnThread.data());
}

class Run {
 public:
  explicit Run(fuzz::Bytes bytes) : scene_{bytes} {}

  // Threads and forks take their time: so there are inputs with one thread, and few with forks.
  void all() {
    const uint8_t kind = scene_.bytes.byte();
    threads_ = 1 + kind % fuzz::Hands::kThreads;
    forks_ = kind / 16 == 1 ? 2 : 0;
    for (int steps = 0; !scene_.bytes.empty() && steps < kMostSteps; ++steps) step();
    finish();
  }

 private:
  // A call with the top bit set says which thread has the turn from now on.
  void step() {
    const uint8_t call = scene_.bytes.byte();
    if (call >= 128) thread_ = scene_.bytes.byte() % threads_;
    hands_.run(thread_, [&] { (this->*kCalls[call % 128 % std::size(kCalls)])(); });
    if (std::exchange(thread_ends_, false)) hands_.end(thread_);
  }

  // --- The C library's functions ---

  void accept(const char* call, void* p, size_t size, size_t alignment) {
    if (scene_.refused(call, p)) return;
    scene_.model.add(call, p, Object{.size = size, .alignment = alignment});
  }

  void malloc_one() {
    const size_t size = scene_.size();
    if (!scene_.full()) accept("malloc", loft_malloc(size), size, 1);
  }

  void calloc_one() {
    const size_t count = 1 + scene_.bytes.byte() % 4;
    const size_t size = scene_.size();
    if (scene_.full()) return;
    void* p = loft_calloc(count, size);
    if (p != nullptr) Model::check_zero("calloc", p, count * size);
    accept("calloc", p, count * size, 1);
  }

  void resize() {
    const size_t index = scene_.pick();
    const size_t count = scene_.bytes.byte() % 4;
    const size_t each = scene_.size();
    const size_t size = std::max(count, size_t{1}) * each;
    const auto call = [&](void* p) {
      return count != 0 ? loft_reallocarray(p, count, each) : loft_realloc(p, size);
    };
    if (scene_.full()) return;
    if (index == Scene::kNone) return accept("realloc(NULL)", call(nullptr), size, 1);
    if (scene_.at(index).in_region) return;
    const Object object = scene_.model.remove("realloc", index);
    const bool there = scene_.settle("realloc", object, call(object.at), size, 0);
    if (there && object.heap != kNoHeap) heaps_.check_inside(scene_.model.objects().back());
  }

  void aligned() {
    const size_t alignment = scene_.alignment();
    const size_t size = scene_.size();
    if (!scene_.full())
      accept("aligned_alloc", loft_aligned_alloc(alignment, size), size, alignment);
  }

  // Any number rounds up to an alignment.
  void memalign_one() {
    const size_t alignment = scene_.bytes.number(2);
    const size_t size = scene_.size();
    if (scene_.full()) return;
    accept("memalign", loft_memalign(alignment, size), size, std::bit_ceil(alignment));
  }

  void posix_memalign_one() {
    const size_t alignment = scene_.alignment();
    const size_t size = scene_.size();
    if (scene_.full()) return;
    void* p = nullptr;
    const int error = loft_posix_memalign(&p, alignment, size);
    if (alignment >= sizeof(void*)) {
      if (error != 0) errno = error;
      accept("posix_memalign", p, size, alignment);
    } else if (error != EINVAL || p != nullptr) {
      wrong("posix_memalign took %zu", alignment);
    }
  }

  void pages() {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const bool whole = scene_.bytes.byte() % 2 != 0;
    const size_t size = scene_.size();
    if (scene_.full()) return;
    if (!whole) return accept("valloc", loft_valloc(size), size, page);
    const size_t bytes = std::max((size + page - 1) / page, size_t{1}) * page;
    accept("pvalloc", loft_pvalloc(size), bytes, page);
  }

  enum class Free { kPlain, kSized, kAlignedSized, kOfHeap };
  void give_back(size_t index, Free how) {
    if (index >= scene_.model.objects().size()) return loft_free(nullptr);
    const Object object = scene_.model.remove("free", index);
    errno = 4711;
    if (object.in_region || (how == Free::kOfHeap && object.heap != kNoHeap)) {
      heaps_.free(object);
    } else if (how == Free::kSized) {
      loft_free_sized(object.at, object.size);
    } else if (how == Free::kAlignedSized) {
      loft_free_aligned_sized(object.at, object.alignment, object.size);
    } else {
      loft_free(object.at);
    }
    if (errno != 4711) wrong("free changed errno to %d", errno);
  }
  void free_one() { give_back(scene_.pick(), Free::kPlain); }
  void free_in_some_way() {
    const size_t index = scene_.pick();
    give_back(index, static_cast<Free>(scene_.bytes.byte() % 4));
  }

  // As many of one size as fill some slabs.
  void many() {
    const size_t size = scene_.size() % 4096;
    for (size_t count = 8 * (1u + scene_.bytes.byte()); count != 0 && !scene_.full(); --count) {
      accept("malloc", loft_malloc(size), size, 1);
    }
  }
  // The last ones, or from anywhere on some in every few: the last one takes a freed one's place.
  void free_many() {
    const size_t count = 8 * (1u + scene_.bytes.byte());
    const size_t step = scene_.bytes.byte() % 4;
    const size_t from = scene_.pick();
    for (size_t i = 0; i < count; ++i) {
      const size_t live = scene_.model.objects().size();
      const size_t index = step == 0 ? live - 1 : from + i * step;
      if (live == 0 || index >= live) return;
      give_back(index, Free::kPlain);
    }
  }

  void inside() {
    const size_t index = scene_.pick();
    const size_t offset = scene_.bytes.number(3);
    if (index == Scene::kNone || scene_.at(index).in_region) return;
    const Object& object = scene_.at(index);
    Model::check_found("inside", object, object.usable == 0 ? 0 : offset % object.usable);
  }

  void impossible() {
    const size_t size = PTRDIFF_MAX + size_t{1} + scene_.bytes.number(3);
    const size_t index = scene_.pick();
    const auto refuse = [](const char* call, const void* p) {
      if (p != nullptr || errno != ENOMEM) wrong("%s gave %p, errno %d", call, p, errno);
      errno = 0;
    };
    errno = 0;
    refuse("malloc", loft_malloc(size));
    refuse("malloc", loft_malloc(0 - size % (1 << 24) - 1));
    refuse("calloc", loft_calloc(size / 3, 7));
    refuse("calloc", loft_calloc(size, size));
    refuse("aligned_alloc", loft_aligned_alloc(64, size));
    refuse("aligned_alloc", loft_aligned_alloc(size_t{1} << 62, size / 4));
    refuse("pvalloc", loft_pvalloc(size));
    if (index == Scene::kNone || scene_.at(index).in_region) return;
    const Object object = scene_.model.remove("realloc", index);
    refuse("realloc", loft_realloc(object.at, size));
    refuse("reallocarray", loft_reallocarray(object.at, size, size));
    scene_.model.put_back(object);
  }

  // --- Heaps of the program's own: user_heaps.h ---

  void heap_create() { heaps_.create(); }
  void heap_create_over() { heaps_.create_over(); }
  void heap_allocate() { heaps_.allocate(); }
  void heap_resize() { heaps_.resize(); }
  void heap_destroy() { heaps_.destroy(); }

  // --- The rest ---

  void purge() { loft_purge(nullptr); }
  void trim() { loft_malloc_trim(scene_.bytes.number(3)); }
  void idle() {
    loft_idle_begin();
    if (scene_.bytes.byte() % 2 != 0) loft_idle_end();
  }

  void option() {
    const char* name = kOptionNames[scene_.bytes.byte() % std::size(kOptionNames)];
    const char* value = kOptionValues[scene_.bytes.byte() % std::size(kOptionValues)];
    if (name == kOwnThread || name == kOtherThread) return;
    loft_option_set(name, value);
    scene_.limited = scene_.limited || loft::get(loft::options.hard_limit) != 0 ||
                     loft::get(loft::options.cgroup) == loft::kGroupHard;
  }

  // Into memory that is exactly as long as was said.
  void text() {
    const auto format = static_cast<loft_stats_format_t>(scene_.bytes.byte() % 4);
    const size_t room = scene_.bytes.number(2);
    const auto buffer = std::make_unique<char[]>(room);
    const size_t length = loft_stats_print(buffer.get(), room, format);
    if (room == 0 || length == 0) return;
    if (strnlen(buffer.get(), room) != std::min(room - 1, length)) {
      wrong("a text of %zu bytes ends at %zu", length, strnlen(buffer.get(), room));
    }
  }
  void class_statistics() {
    const size_t rows = scene_.bytes.byte() % 64;
    const size_t row = scene_.bytes.byte();
    const auto buffer = std::make_unique<unsigned char[]>(rows * row);
    loft_stats_classes(reinterpret_cast<loft_class_stats_t*>(buffer.get()), rows, row);
  }

  void end_thread() { thread_ends_ = true; }

  // The child is the thread that called, alone; the others' objects are its own now.
  void fork_now() {
    if (forks_ == 0) return;
    --forks_;
    const pid_t child = fork();
    if (child == 0) {
      forks_ = 0;
      hands_.stay_alone();
      for (int steps = 0; !scene_.bytes.empty() && steps < kStepsOfChild; ++steps) step();
      finish();
      _exit(0);
    }
    int status = -1;
    // The fuzzer's own timer interrupts.
    while (child > 0 && waitpid(child, &status, 0) != child && errno == EINTR) {
    }
    if (child < 0 || status != 0) wrong("the child of a fork ended with %d", status);
    scene_.model.check_all("after a fork");
  }

  // Whoever is left frees what is left, and gives back all memory: no input knows of the last one.
  void finish() {
    hands_.end_all();
    heaps_.destroy_all();
    while (!scene_.model.objects().empty()) {
      give_back(scene_.model.objects().size() - 1, Free::kPlain);
    }
    loft_purge(nullptr);
    loft_stats_t stats = {};
    stats.struct_size = sizeof(stats);
    loft_stats(&stats);
    const uint64_t parts = stats.live_bytes + stats.rounding_bytes + stats.free_in_slabs_bytes +
                           stats.cached_bytes + stats.in_flight_bytes + stats.large_cached_bytes +
                           stats.free_span_bytes + stats.metadata_resident_bytes +
                           stats.purged_charged_bytes + stats.user_heap_resident_bytes +
                           stats.huge_slack_bytes - stats.untouched_bytes;
    if (parts != stats.resident_bytes) {
      wrong("%lu bytes are resident, %lu by the parts", stats.resident_bytes, parts);
    }
    if (stats.live_objects != 0 || stats.large_bytes != 0 || stats.user_heaps != 0 ||
        stats.live_bytes + stats.rounding_bytes != 0) {
      wrong("left: %lu objects, %lu bytes, %lu of large ones, %lu heaps", stats.live_objects,
            stats.live_bytes + stats.rounding_bytes, stats.large_bytes, stats.user_heaps);
    }
  }

  // An input says the position: a new one belongs at the end.
  static constexpr void (Run::* kCalls[])() = {
      &Run::malloc_one,    &Run::calloc_one,   &Run::resize,
      &Run::aligned,       &Run::memalign_one, &Run::posix_memalign_one,
      &Run::pages,         &Run::free_one,     &Run::free_in_some_way,
      &Run::many,          &Run::free_many,    &Run::inside,
      &Run::impossible,    &Run::heap_create,  &Run::heap_create_over,
      &Run::heap_allocate, &Run::heap_resize,  &Run::heap_destroy,
      &Run::purge,         &Run::trim,         &Run::idle,
      &Run::option,        &Run::text,         &Run::class_statistics,
      &Run::end_thread,    &Run::fork_now,
  };

  Scene scene_;
  fuzz::UserHeaps heaps_{scene_};
  fuzz::Hands hands_;
  unsigned threads_ = 1;
  unsigned thread_ = 0;  // that has the turn
  bool thread_ends_ = false;
  int forks_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  reset_options();
  Run(fuzz::Bytes(data, size)).all();
  return 0;
}
