#include "planner.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "plan.h"

namespace trace {

namespace {

// A thread as it stands in the plan.
struct Player {
  // It allocates or frees, and does not only start others and end.
  bool plays;
  uint64_t steps;
  uint64_t first_step;
  uint64_t written;
  uint64_t places;
  uint64_t first_place;
  // Of all that it does.
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

 private:
  Player& player(uint32_t number) {
    if (number >= players_.size()) players_.resize(static_cast<size_t>(number) + 1);
    return players_[number];
  }

  void find_threads() {
    for (uint64_t ticket = 1; ticket <= calls_.last(); ticket++) {
      const Record& record = calls_.at(ticket);
      if (record.call == 0) continue;
      Player& one = player(record.thread);
      if (one.first_ticket == 0) one.first_ticket = ticket;
      one.last_ticket = ticket;
      if (record.call < kSpawn) one.plays = true;
    }
    for (uint64_t ticket = 1; ticket <= calls_.last(); ticket++) {
      const Record& record = calls_.at(ticket);
      if (record.call == 0) continue;
      Player& one = players_[record.thread];
      if (!one.plays || one.first_ticket != ticket) continue;
      one.index = order_.size();
      order_.add(record.thread);
    }
    for (uint64_t ticket = 1; ticket <= calls_.last(); ticket++) {
      Record& record = calls_.at(ticket);
      if (record.call != kSpawn && record.call != kJoin && record.call != kEnd) continue;
      if (!is_between_players(ticket)) record.call = 0;
    }
  }

  // A start counts if it comes before all that the thread does, a join if it comes after: then
  // nothing waits for what has a higher ticket.
  bool is_between_players(uint64_t ticket) {
    const Record& record = calls_.at(ticket);
    if (record.call == kEnd || record.count >= players_.size() || record.count == record.thread) {
      return false;
    }
    Player& other = players_[record.count];
    if (!players_[record.thread].plays || !other.plays) return false;
    if (record.call == kJoin) return ticket > other.last_ticket;
    if (ticket >= other.first_ticket || other.spawned) return false;
    return other.spawned = true;
  }

  // The objects that are handed over have the first places, then come each thread's own.
  void give_places() {
    Table<Table<uint64_t>> free_places;
    free_places.resize(order_.size());
    const auto give = [&](Record& begins) {
      Player& one = players_[begins.thread];
      Table<uint64_t>& own = free_places[one.index];
      if (begins.handed) {
        begins.address = handed_++;
      } else if (own.size() != 0) {
        begins.address = own.take();
      } else {
        begins.address = one.places++;
      }
    };
    for (uint64_t ticket = 1; ticket <= calls_.last(); ticket++) {
      Record& record = calls_.at(ticket);
      if (record.call == 0 || record.call >= kSpawn) continue;
      if (Calls::frees_or_moves(record.call) && record.owner != 0 && !failed_to_move(record)) {
        const Record& began = calls_.at(record.owner);
        if (!began.handed) free_places[players_[began.thread].index].add(began.address);
      }
      if (Calls::begins(record)) give(record);
      // The replay moves an object at once; what else the thread did meanwhile, in a handler of a
      // signal, has other places.
      if (moves(static_cast<Call>(record.call)) && !record.nothing) give(calls_.at(record.end));
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
      if (record.thread >= players_.size()) continue;
      const Player& one = players_[record.thread];
      // What was freed and never allocated is left out, perhaps with all that the thread did.
      if (!one.plays || sample.ticket < one.first_ticket || sample.ticket > one.last_ticket) {
        continue;
      }
      samples_.add(sample);
      players_[record.thread].steps++;
    }
    for (const uint32_t number : order_) {
      players_[number].first_step = steps_;
      steps_ += players_[number].steps;
      players_[number].ticket = players_[number].first_ticket;
    }
  }

  static bool failed_to_move(const Record& record) {
    return moves(static_cast<Call>(record.call)) && record.nothing && asked(record) != 0;
  }

  // Where the thread finds the object that ends here. One that does not move, and is another
  // thread's now or later, may be freed before: there is no telling.
  bool has_old_place(const Record& record) {
    if (record.owner == 0) return false;
    const Record& began = calls_.at(record.owner);
    return !failed_to_move(record) || (!began.handed && began.thread == record.thread);
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
      if (has_old_place(record)) {
        step.old_place = place_of(record.owner);
        if (calls_.at(record.owner).handed) step.flags |= kOldHanded;
      } else {
        // Of nothing, or of what we never saw begin.
        step.call = kReallocNew;
        if (call == kReallocArray && __builtin_mul_overflow(step.count, step.size, &step.size)) {
          step.size = UINT64_MAX / 2;
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
    const int file = open(out_, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0) fail("the plan for the replay cannot be written");
    // Allocated now: a full disk would otherwise end this with a signal.
    if (posix_fallocate(file, 0, static_cast<off_t>(header.file_bytes)) != 0) {
      fail("there is no room for the plan of the replay; TMPDIR names a folder with more");
    }
    void* p = mmap(nullptr, header.file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (p == MAP_FAILED) fail("the plan for the replay cannot be mapped");
    close(file);
    const Mapping plan(p, header.file_bytes);
    memcpy(plan.begin(), &header, sizeof(header));
    auto* threads = reinterpret_cast<PlanThread*>(plan.begin() + sizeof(header));
    for (const uint32_t number : order_) {
      const Player& one = players_[number];
      *threads++ = {one.first_step,   one.steps, one.first_place,
                    one.first_ticket, number,    one.spawned};
    }
    auto* steps = reinterpret_cast<Step*>(plan.begin() + start);
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

}  // namespace

void write_plan(Calls& calls, const char* out) { Planner(calls, out).run(); }

}  // namespace trace
