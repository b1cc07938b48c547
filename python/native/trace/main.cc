// loft-trace: reads the chunks of a trace for `loft replay`.
//
//   loft-trace info FILE                         all processes, as JSON
//   loft-trace calls FILE PROCESS                the calls of one, a line for each
//   loft-trace plan FILE PROCESS SAMPLES OUT     a plan for loft-replay; about the process, as JSON
//
// FILE holds nothing but chunks: `loft` has uncompressed it. What is wrong with it is one line on
// standard error.
#include <fcntl.h>

#include "calls.h"
#include "plan.h"

namespace trace {

namespace {

constexpr const char* kNames[] = {"",
                                  "malloc",
                                  "calloc",
                                  "realloc",
                                  "realloc",
                                  "reallocarray",
                                  "free",
                                  "free_sized",
                                  "free_aligned_sized",
                                  "aligned_alloc",
                                  "memalign",
                                  "posix_memalign",
                                  "valloc",
                                  "pvalloc",
                                  "thread starts",
                                  "thread joined",
                                  "thread ends"};
static_assert(sizeof(kNames) / sizeof(kNames[0]) == kLastCall + 1);

using Number = unsigned long long;

// Bytes stand for themselves where JSON lets them, else as the characters of their numbers.
void print_words(const Image& image) {
  putchar('"');
  for (size_t i = 0; i < image.words_bytes; i++) {
    const auto c = static_cast<unsigned char>(image.words[i]);
    if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\') {
      printf("\\u%04x", c);
    } else {
      putchar(c);
    }
  }
  putchar('"');
}

void print_image(const Image& image) {
  printf("\"pid\": %u, \"parent\": %llu, \"image\": %llu, \"words\": ", image.pid,
         static_cast<Number>(image.parent), static_cast<Number>(image.number));
  print_words(image);
  printf(", \"calls\": %llu, \"threads\": %u, \"lost\": %llu, \"ns\": %llu",
         static_cast<Number>(image.calls), image.threads, static_cast<Number>(image.lost),
         static_cast<Number>((image.last_tick - image.first_tick) * kTick));
}

void print_info(Chunks& chunks) {
  printf("[");
  for (size_t i = 0; i < chunks.images().size(); i++) {
    printf("%s{", i == 0 ? "" : ", ");
    print_image(chunks.images()[i]);
    printf("}");
  }
  printf("]\n");
}

void print_calls(Calls& calls) {
  uint64_t start = 0;
  for (uint64_t ticket = 1; ticket <= calls.last(); ticket++) {
    const Record& record = calls.at(ticket);
    if (record.call == 0 || record.call == kMoved) continue;
    if (start == 0) start = record.ticks;
    const auto call = static_cast<Call>(record.call);
    printf("%llu %u %lld %s", static_cast<Number>(ticket), record.thread,
           static_cast<long long>((record.ticks - start) * kTick / 1000), kNames[call]);
    if (has_count(call)) printf(" %llu", static_cast<Number>(record.count));
    if (has_size(call)) printf(" %llu", static_cast<Number>(record.size));
    if (record.owner != 0) {
      printf(" #%llu", static_cast<Number>(record.owner));
    } else if (record.foreign) {
      printf(" #?");
    } else if (frees(call) || moves(call)) {
      printf(" null");
    }
    if (Calls::begins(record)) printf(" -> #%llu", static_cast<Number>(ticket));
    if (moves(call) && !record.nothing) printf(" -> #%llu", static_cast<Number>(record.end));
    if (!frees(call) && call < kSpawn && record.nothing) printf(" -> null");
    printf("\n");
  }
}

// A thread as it stands in the plan.
struct Player {
  uint64_t steps;
  uint64_t first_step;
  uint64_t written;
  uint64_t places;
  uint64_t first_place;
  uint64_t first_ticket;
  uint64_t last_ticket;
  uint64_t ticket;  // of the step that was written last
  uint64_t index;
  bool spawned;
};

class Planner {
 public:
  Planner(Calls& calls, const char* out) : calls_(calls), out_(out) {}

  void run() {
    find_threads();
    give_places();
    count_steps();
    write_plan();
  }
  uint64_t threads() const { return order_.size(); }

 private:
  Player& player(uint32_t number) {
    if (number >= players_.size()) players_.resize(static_cast<size_t>(number) + 1);
    return players_[number];
  }

  void find_threads() {
    for (uint64_t ticket = 1; ticket <= calls_.last(); ticket++) {
      const Record& record = calls_.at(ticket);
      if (record.call == 0 || record.call >= kSpawn) continue;
      Player& one = player(record.thread);
      if (one.first_ticket == 0) {
        one.first_ticket = ticket;
        one.index = order_.size();
        order_.add(record.thread);
      }
      one.last_ticket = ticket;
    }
    // A start counts if it comes before all that the thread does, a join if it comes after.
    for (uint64_t ticket = 1; ticket <= calls_.last(); ticket++) {
      Record& record = calls_.at(ticket);
      if (record.call != kSpawn && record.call != kJoin && record.call != kEnd) continue;
      bool counts = record.call != kEnd && record.count < players_.size() &&
                    record.thread < players_.size() && players_[record.thread].first_ticket != 0 &&
                    record.count != record.thread;
      if (counts) {
        Player& other = players_[record.count];
        counts = other.first_ticket != 0 &&
                 (record.call == kSpawn ? ticket < other.first_ticket && !other.spawned
                                        : ticket > other.last_ticket);
        if (counts && record.call == kSpawn) other.spawned = true;
      }
      if (!counts) record.call = 0;
    }
    // A thread that starts or joins others before or after all of its own calls does it then.
    for (uint64_t ticket = 1; ticket <= calls_.last(); ticket++) {
      const Record& record = calls_.at(ticket);
      if (record.call != kSpawn && record.call != kJoin) continue;
      Player& one = players_[record.thread];
      if (ticket < one.first_ticket) one.first_ticket = ticket;
      if (ticket > one.last_ticket) one.last_ticket = ticket;
    }
  }

  // The objects that are handed over have the first places, then come each thread's own.
  void give_places() {
    Table<uint64_t>* free_places =
        static_cast<Table<uint64_t>*>(map_zeros((players_.size() + 1) * sizeof(Table<uint64_t>)));
    for (uint64_t ticket = 1; ticket <= calls_.last(); ticket++) {
      Record& record = calls_.at(ticket);
      if (record.call == 0 || record.call >= kSpawn) {
        if (record.call != kMoved) continue;
      }
      const bool failed_move = record.nothing && asked(record) != 0;
      if (Calls::frees_or_moves(record.call) && record.owner != 0 && !failed_move) {
        const Record& began = calls_.at(record.owner);
        if (!began.handed) free_places[began.thread].add(began.address);
      }
      if (!Calls::begins(record)) continue;
      Table<uint64_t>& own = free_places[record.thread];
      if (record.handed) {
        record.address = handed_++;
      } else if (own.size() != 0) {
        record.address = own.take();
      } else {
        record.address = players_[record.thread].places++;
      }
    }
    uint64_t place = handed_;
    for (const uint32_t number : order_) {
      players_[number].first_place = place;
      place += players_[number].places;
    }
    places_ = place;
    if (places_ > UINT32_MAX) fail("there are too many objects for a replay (2^32)");
  }

  void count_steps() {
    for (uint64_t ticket = 1; ticket <= calls_.last(); ticket++) {
      const Record& record = calls_.at(ticket);
      if (record.call != 0 && record.call != kMoved) players_[record.thread].steps++;
    }
    // Where more was alive than ever, the memory is looked at in any case.
    Table<Sample> all;
    bool have_peak = calls_.peak_ticket == 0;
    for (const Sample& sample : calls_.samples) {
      if (!have_peak && calls_.peak_ticket <= sample.ticket) {
        if (calls_.peak_ticket < sample.ticket) all.add({calls_.peak_ticket, calls_.peak_bytes});
        have_peak = true;
      }
      all.add(sample);
    }
    if (!have_peak) all.add({calls_.peak_ticket, calls_.peak_bytes});
    for (const Sample& sample : all) {
      const Record& record = calls_.at(sample.ticket);
      if (record.thread >= players_.size() || players_[record.thread].first_ticket == 0) continue;
      samples_.add(sample);
      players_[record.thread].steps++;
    }
    for (const uint32_t number : order_) {
      players_[number].first_step = steps_;
      steps_ += players_[number].steps;
      players_[number].ticket = players_[number].first_ticket;
    }
  }

  // The object's place among all.
  uint32_t place_of(uint64_t began_at) {
    const Record& began = calls_.at(began_at);
    const uint64_t first = began.handed ? 0 : players_[began.thread].first_place;
    return static_cast<uint32_t>(first + began.address);
  }

  Step step_of(uint64_t ticket) {
    const Record& record = calls_.at(ticket);
    const auto call = static_cast<Call>(record.call);
    Step step = {};
    step.call = record.call;
    step.size = record.size;
    step.count = record.count;
    if (record.nothing) step.flags |= kFailed;
    if (call == kSpawn || call == kJoin) {
      step.place = static_cast<uint32_t>(players_[record.count].index);
      return step;
    }
    if (frees(call) && record.owner != 0) {
      step.place = place_of(record.owner);
      if (calls_.at(record.owner).handed) step.flags |= kHanded;
    } else if (moves(call)) {
      if (record.nothing && asked(record) == 0) step.flags |= kGone;
      if (record.owner != 0) {
        step.old_place = place_of(record.owner);
        if (calls_.at(record.owner).handed) step.flags |= kOldHanded;
      } else {
        // Of nothing, or of what we never saw begin.
        if (call == kRealloc) {
          step.call = kReallocNew;
        } else {
          step.call = kReallocNew;
          if (__builtin_mul_overflow(step.count, step.size, &step.size)) step.size = UINT64_MAX / 2;
        }
      }
      if (!record.nothing) {
        step.place = place_of(record.end);
        if (calls_.at(record.end).handed) step.flags |= kHanded;
      }
    } else if (Calls::begins(record)) {
      step.place = place_of(ticket);
      if (record.handed) step.flags |= kHanded;
    }
    return step;
  }

  void write_plan() {
    PlanHeader header = {};
    header.magic = kPlanMagic;
    header.threads = order_.size();
    header.steps = steps_;
    header.samples = samples_.size();
    header.calls = calls_.calls;
    header.places = places_;
    const size_t start = sizeof(header) + order_.size() * sizeof(PlanThread);
    header.file_bytes = start + steps_ * sizeof(Step);
    const int file = open(out_, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0) fail("the plan for the replay cannot be written");
    // Allocated now: a full disk would otherwise end this with a signal.
    if (posix_fallocate(file, 0, static_cast<off_t>(header.file_bytes)) != 0) {
      fail("there is no room for the plan of the replay; TMPDIR names a folder with more");
    }
    void* mapped = mmap(nullptr, header.file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) fail("the plan for the replay cannot be mapped");
    close(file);
    memcpy(mapped, &header, sizeof(header));
    auto* threads = reinterpret_cast<PlanThread*>(static_cast<char*>(mapped) + sizeof(header));
    for (const uint32_t number : order_) {
      const Player& one = players_[number];
      *threads++ = {one.first_step,   one.steps, one.first_place,
                    one.first_ticket, number,    one.spawned};
    }
    auto* steps = reinterpret_cast<Step*>(static_cast<char*>(mapped) + start);
    const auto write_step = [&](uint64_t ticket, Step step) {
      Player& one = players_[calls_.at(ticket).thread];
      if (ticket - one.ticket > UINT32_MAX) fail("a thread pauses for too long for a replay");
      step.tickets = static_cast<uint32_t>(ticket - one.ticket);
      one.ticket = ticket;
      steps[one.first_step + one.written++] = step;
    };
    size_t sample = 0;
    for (uint64_t ticket = 1; ticket <= calls_.last(); ticket++) {
      const Record& record = calls_.at(ticket);
      if (record.call != 0 && record.call != kMoved) write_step(ticket, step_of(ticket));
      for (; sample < samples_.size() && samples_[sample].ticket == ticket; sample++) {
        Step step = {};
        step.call = kSample;
        step.place = static_cast<uint32_t>(sample);
        step.size = samples_[sample].live_bytes;
        step.count = ticket;
        write_step(ticket, step);
      }
    }
    munmap(mapped, header.file_bytes);
  }

  Calls& calls_;
  const char* out_;
  Table<Player> players_;
  // The numbers of those that call at all, in the order of their first calls.
  Table<uint32_t> order_;
  Table<Sample> samples_;
  uint64_t handed_ = 0;
  uint64_t places_ = 0;
  uint64_t steps_ = 0;
};

void print_plan(const Image& image, Calls& calls) {
  printf("{");
  print_image(image);
  printf(", \"by_call\": {");
  const char* between = "";
  uint64_t counts[kLastCall + 1];
  for (size_t i = 1; i <= kLastCall; i++) counts[i] = calls.by_call[i];
  counts[kRealloc] += counts[kReallocNew];
  for (size_t i = 1; i <= kLastCall; i++) {
    if (counts[i] == 0 || i == kReallocNew) continue;
    printf("%s\"%s\": %llu", between, kNames[i], static_cast<Number>(counts[i]));
    between = ", ";
  }
  printf("}, \"by_size\": [");
  for (size_t i = 0; i < 65; i++) {
    printf("%s%llu", i == 0 ? "" : ", ", static_cast<Number>(calls.by_size[i]));
  }
  printf("], \"failed\": %llu, \"handed\": %llu, \"foreign\": %llu, \"twice\": %llu",
         static_cast<Number>(calls.failed), static_cast<Number>(calls.handed),
         static_cast<Number>(calls.foreign), static_cast<Number>(calls.twice));
  printf(", \"peak_bytes\": %llu, \"peak_objects\": %llu, \"peak_ticket\": %llu",
         static_cast<Number>(calls.peak_bytes), static_cast<Number>(calls.peak_objects),
         static_cast<Number>(calls.peak_ticket));
  printf(", \"inherited\": %llu", static_cast<Number>(calls.inherited));
  printf(", \"left_bytes\": %llu, \"left_objects\": %llu, \"tickets\": %llu}\n",
         static_cast<Number>(calls.left_bytes), static_cast<Number>(calls.left_objects),
         static_cast<Number>(calls.last()));
}

int run(int argc, char** argv) {
  const char* what = argc > 2 ? argv[1] : "";
  const bool info = strcmp(what, "info") == 0 && argc == 3;
  const bool listed = strcmp(what, "calls") == 0 && argc == 4;
  const bool plan = strcmp(what, "plan") == 0 && argc == 6;
  if (!info && !listed && !plan) {
    fputs("loft-trace: a part of `loft replay`, not to be started by hand\n", stderr);
    return 2;
  }
  Chunks chunks(argv[2]);
  if (info) {
    print_info(chunks);
    return 0;
  }
  const size_t image = strtoul(argv[3], nullptr, 10);
  if (image >= chunks.images().size()) fail("there is no such process in it");
  Calls calls(chunks, image, plan ? strtoul(argv[4], nullptr, 10) : 0);
  if (listed) {
    print_calls(calls);
    return 0;
  }
  Planner(calls, argv[5]).run();
  print_plan(chunks.images()[image], calls);
  return 0;
}

}  // namespace

}  // namespace trace

int main(int argc, char** argv) { return trace::run(argc, argv); }
