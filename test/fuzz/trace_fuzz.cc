// The chunks of a trace, as `loft` has uncompressed them: what loft-trace makes of each process,
// and the replay of its plan. A trace that is not refused has to give a plan that holds together,
// and whose replay ends and damages no object; the sanitizer sees what is freed twice or used
// after.
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <string>
#include <vector>

#include "bytes.h"
#include "calls.h"
#include "plan.h"
#include "player.h"
#include "reader.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace {

// What fail() throws here.
struct Refused {};

// A file in memory, with a path.
class File {
 public:
  explicit File(const char* name) : descriptor_(memfd_create(name, MFD_CLOEXEC)) {
    if (descriptor_ < 0) fuzz::wrong("no file: %d", errno);
    path_ = "/proc/self/fd/" + std::to_string(descriptor_);
  }
  char* path() { return path_.data(); }
  void put(const uint8_t* data, size_t size) {
    if (ftruncate(descriptor_, 0) != 0 ||
        pwrite(descriptor_, data, size, 0) != static_cast<ssize_t>(size)) {
      fuzz::wrong("the file cannot be written: %d", errno);
    }
  }

 private:
  int descriptor_;
  std::string path_;
};

// What is written has to be new: a file in the folder where the fuzzer leaves what it finds.
class NewFile {
 public:
  ~NewFile() { unlink(path()); }
  char* path() { return path_.data(); }
  std::vector<uint8_t> bytes() {
    const int file = open(path(), O_RDONLY | O_CLOEXEC);
    if (file < 0) fuzz::wrong("no plan: %d", errno);
    std::vector<uint8_t> all(static_cast<size_t>(lseek(file, 0, SEEK_END)));
    if (pread(file, all.data(), all.size(), 0) != static_cast<ssize_t>(all.size())) {
      fuzz::wrong("the plan cannot be read: %d", errno);
    }
    close(file);
    return all;
  }

 private:
  std::string path_ = "plan-" + std::to_string(getpid());
};

// Processes that are looked at, and samples that are asked for of each.
constexpr size_t kImages = 4;
constexpr char kSamples[] = "20";

// What a replay may take: the plans of all others are looked at, and not carried out.
constexpr uint64_t kMostSteps = 2000;
constexpr uint64_t kMostThreads = 8;
constexpr uint64_t kMostBytes = 1 << 20;
// No allocator has so much.
constexpr uint64_t kNever = uint64_t{1} << 48;

// A plan, read as loft-replay reads it.
class Plan {
 public:
  explicit Plan(std::vector<uint8_t> bytes) : bytes_(std::move(bytes)) {
    memcpy(&header_, bytes_.data(), sizeof(header_));
    threads_ = reinterpret_cast<const trace::PlanThread*>(bytes_.data() + sizeof(header_));
    steps_ = reinterpret_cast<const trace::Step*>(threads_ + header_.threads);
    if (reinterpret_cast<const uint8_t*>(steps_ + header_.steps) != bytes_.data() + bytes_.size()) {
      fuzz::wrong("a plan of another length");
    }
  }

  void check() const {
    uint64_t steps = 0;
    std::vector<bool> sampled(header_.samples);
    for (uint64_t i = 0; i < header_.threads; ++i) {
      if (threads_[i].first_step != steps) fuzz::wrong("thread %lu has steps of another", i);
      steps += threads_[i].steps;
      uint64_t ticket = threads_[i].first_ticket;
      for (uint64_t j = threads_[i].first_step; j < steps; ++j) {
        ticket += steps_[j].tickets;
        check(steps_[j], i, ticket, sampled);
      }
    }
    if (steps != header_.steps) fuzz::wrong("steps of no thread");
    for (const bool was : sampled) {
      if (!was) fuzz::wrong("a sample that nobody takes");
    }
  }

  bool is_small() const {
    if (header_.steps > kMostSteps || header_.threads > kMostThreads) return false;
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < header_.steps; ++i) {
      const trace::Step& step = steps_[i];
      if (step.call >= trace::kSpawn) continue;
      const bool array = step.call == trace::kCalloc || step.call == trace::kReallocArray;
      const bool aligned = !array && trace::has_count(static_cast<trace::Call>(step.call));
      uint64_t asked = step.size;
      if (array && __builtin_mul_overflow(step.count, step.size, &asked)) continue;
      if (asked >= kNever) continue;
      if (aligned && step.count > kMostBytes) return false;
      // What the C library says of these two holds for powers of two; the sanitizer insists on it.
      const bool any = step.call != trace::kAlignedAlloc && step.call != trace::kMemalign;
      if (!any && !std::has_single_bit(step.count)) return false;
      bytes += asked + (aligned ? step.count : 0);
      if (bytes > kMostBytes) return false;
    }
    return true;
  }

 private:
  void check(const trace::Step& step, uint64_t thread, uint64_t ticket,
             std::vector<bool>& sampled) const {
    const auto call = static_cast<trace::Call>(step.call);
    if (step.call == trace::kSample) {
      if (step.place >= header_.samples || sampled[step.place]) fuzz::wrong("an odd sample");
      sampled[step.place] = true;
    } else if (call == trace::kSpawn || call == trace::kJoin) {
      if (step.place >= header_.threads || step.place == thread) fuzz::wrong("an odd thread");
      if (call == trace::kSpawn && step.place == 0) fuzz::wrong("the first thread is started");
      // The replay would wait for what comes later, for ever.
      if (call == trace::kSpawn && ticket >= threads_[step.place].first_ticket) {
        fuzz::wrong("a thread is started that runs already");
      }
      if (call == trace::kJoin && ticket <= last_ticket(step.place)) {
        fuzz::wrong("a thread is waited for that runs on");
      }
    } else if (call < trace::kMalloc || call > trace::kPvalloc) {
      fuzz::wrong("step %u", step.call);
    } else {
      if ((step.flags & trace::kFailed) == 0)
        check(step.place, step.flags & trace::kHanded, thread);
      if (trace::moves(call)) check(step.old_place, step.flags & trace::kOldHanded, thread);
    }
  }

  uint64_t last_ticket(uint64_t thread) const {
    uint64_t ticket = threads_[thread].first_ticket;
    for (uint64_t i = 0; i < threads_[thread].steps; ++i) {
      ticket += steps_[threads_[thread].first_step + i].tickets;
    }
    return ticket;
  }

  // Of the objects that are handed over, or the thread's own.
  void check(uint32_t place, bool handed, uint64_t thread) const {
    const uint64_t handed_over = header_.threads == 0 ? 0 : threads_[0].first_place;
    const uint64_t first = handed ? 0 : threads_[thread].first_place;
    const uint64_t behind = handed                          ? handed_over
                            : thread + 1 == header_.threads ? header_.places
                                                            : threads_[thread + 1].first_place;
    if (place < first || place >= behind) fuzz::wrong("a place that is another's");
  }

  std::vector<uint8_t> bytes_;
  trace::PlanHeader header_;
  const trace::PlanThread* threads_;
  const trace::Step* steps_;
};

void play(const char* path, uint64_t window) {
  trace::Player player;
  if (const char* why = player.open_plan(path)) fuzz::wrong("%s", why);
  const trace::Counts counts = player.play(window, trace::Touch::kAll).counts;
  if (counts.damaged + counts.dirty + counts.unaligned != 0) {
    fuzz::wrong("%lu damaged, %lu not zero, %lu not aligned", counts.damaged, counts.dirty,
                counts.unaligned);
  }
}

// False if it is refused.
template <size_t n>
bool read_trace(char* (&&words)[n]) {
  try {
    if (trace::read_trace(n, words) != 0) fuzz::wrong("arguments that are none");
    return true;
  } catch (const Refused&) {
    return false;
  }
}

size_t images_in(const char* path) {
  try {
    return trace::Chunks(path).images().size();
  } catch (const Refused&) {
    return 0;
  }
}

char name[] = "loft-trace";
char info[] = "info";
char calls[] = "calls";
char plan[] = "plan";
char samples[sizeof(kSamples)];

}  // namespace

void trace::fail(const char* why) {
  if (*why == 0 || strchr(why, '\n') != nullptr) fuzz::wrong("not one line: %s", why);
  // No trace is the reason for it, and no plan would be looked at.
  if (strcmp(why, "the plan for the replay cannot be written") == 0) fuzz::wrong("%s", why);
  throw Refused();
}

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  memcpy(samples, kSamples, sizeof(kSamples));
  // What it prints.
  if (freopen("/dev/null", "w", stdout) == nullptr) fuzz::wrong("no /dev/null");
  return 0;
}

// Chunks whose lengths no longer fit what is in them are refused at once: they are mended mostly.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, most);
  if (seed % 8 == 0) return size;
  const auto magic_at = [&](size_t at) {
    uint32_t magic;
    memcpy(&magic, data + at, sizeof(magic));
    return magic == trace::kCallsChunk || magic == trace::kProcessChunk;
  };
  for (size_t at = 0; size - at >= sizeof(trace::ChunkHeader);) {
    size_t next = at + sizeof(trace::ChunkHeader);
    while (next < size && (size - next < sizeof(uint32_t) || !magic_at(next))) ++next;
    const auto length = static_cast<uint32_t>(next - at);
    memcpy(data + at + offsetof(trace::ChunkHeader, bytes), &length, sizeof(length));
    at = next;
  }
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static File chunks("chunks");
  chunks.put(data, size);
  const size_t images = images_in(chunks.path());
  if (!read_trace({name, info, chunks.path()})) return 0;
  for (size_t i = 0; i < std::min(images, kImages); ++i) {
    std::string number = std::to_string(i);
    read_trace({name, calls, chunks.path(), number.data()});
    NewFile planned;
    if (!read_trace({name, plan, chunks.path(), number.data(), samples, planned.path()})) continue;
    const Plan made(planned.bytes());
    made.check();
    if (!made.is_small()) continue;
    play(planned.path(), 0);
    play(planned.path(), 1000);
  }
  return 0;
}
