#include "serve/server.h"

#include <errno.h>

#include "base/macros.h"
#include "base/options.h"
#include "files/inspect.h"
#include "files/output.h"
#include "malloc/allocate.h"
#include "os/fault.h"
#include "os/lock.h"
#include "os/os.h"
#include "os/own_thread.h"
#include "profile/samples.h"
#include "profile/write.h"
#include "runtime/background.h"
#include "runtime/lifecycle.h"
#include "serve/slabs.h"
#include "stats/report.h"
#include "stats/stats.h"

namespace loft::serve {

namespace {

enum State : uint32_t { kNobody, kServing, kLeaving, kRefused };
constinit Atomic<uint32_t> state{kNobody};

// How the thread's beginning came out. Release pairs with the acquire of who started it and reads
// `trouble`.
enum Outcome : uint32_t { kOpen, kServes, kFailed };
constinit Atomic<uint32_t> outcome{kOpen};
constinit const char* trouble = nullptr;

// As long as an address of this kind may be, with its NUL.
constinit char place[108] = {};

// Constant while there is a thread. Relaxed: its creation orders it, or that of the process's end.
constinit Atomic<const inspect::Table*> library{nullptr};

// Held while the option is followed.
constinit os::Lock following;
constinit Atomic<uint64_t> followed{0};  // the option's value. Relaxed: written under the lock

// ---- What the library asks for ----

void tell(Outcome now) {
  outcome.store(now, memory_order_release);
  os::wake_one(&outcome);
}

int write(inspect::Told what, int file, uint64_t from) {
  using inspect::Told;
  if (what == Told::kProfile || what == Told::kPeak) {
    if (!profile::prepared()) return ENODATA;
    using profile::Moment;
    const Moment moment = what == Told::kPeak ? Moment::kPeak : Moment::kNow;
    return library.load(memory_order_relaxed)->write_profile(profile::as_it_is(moment), file);
  }
  Output output = Output::to_file(file);
  if (what == Told::kMap) {
    write_slabs(output, from);
  } else if (what == Told::kPurge) {
    size_t threads = 0;
    size_t bytes = 0;
    const size_t purged = purge_everything(&threads, &bytes);
    output.print("{\"purged_bytes\": %zu, \"unreached_threads\": %zu, \"unreached_bytes\": %zu}\n",
                 purged, threads, bytes);
    output.flush();
  } else {
    const bool metrics = what == Told::kMetrics;
    write_stats(output, Stats(), metrics ? LOFT_STATS_PROMETHEUS : LOFT_STATS_JSON);
  }
  return output.error();
}

constinit inspect::Served served = {
    .begins = [] { tell(kServes); },
    .goes_on = [] { return state.load(memory_order_relaxed) == kServing; },
    .write = write,
    .set_option = nullptr,  // constant after enable
};

// ---- The thread ----

// Returns when told to leave; or at once, with why there can be no socket.
const char* serve() {
  const char* const path = path_of(options.socket);
  if (path == nullptr) return "the option has been cleared";
  if (!os::leave_files()) return "the system gives a thread no files of its own (close_range)";
  if (!files::expand_path(path, place, sizeof(place))) {
    return "the path is longer than 107 bytes";
  }
  return library.load(memory_order_relaxed)->serve(served, place);
}

void run() {
  census::do_without_cache();
  trouble = serve();
  if (trouble != nullptr) tell(kFailed);
  uint32_t expected = kServing;
  state.compare_exchange_strong(expected, kNobody, memory_order_relaxed);
}

constinit os::OwnThread thread("loft-socket", state, {kNobody, kServing, kLeaving, kRefused}, run);

bool may_run() { return path_of(options.socket) != nullptr; }

void report_trouble(const char* why) {
  const char* const path = place[0] != 0 ? place : path_of(options.socket);
  if (path == nullptr) return;  // the option has been cleared meanwhile
  constexpr size_t kQuotedPath = 200;
  Text line;
  line << "the socket ";
  if (__builtin_strlen(path) <= kQuotedPath) line << path << " ";
  os::report(line << "is not served: " << why);
}

// How long its starter waits for the thread to have a socket. It takes a tenth of a millisecond,
// and longer on a machine that is very busy.
constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kLongestBeginning = 10 * kSecond;

// Starts the thread, and returns once it has a socket or knows why not. False if there is no
// thread.
bool begin_to_serve() {
  outcome.store(kOpen, memory_order_relaxed);
  if (!thread.start(may_run)) return false;
  const uint64_t from = os::now_ns();
  while (outcome.load(memory_order_acquire) == kOpen && os::now_ns() - from < kLongestBeginning) {
    os::wait_on_word_for(&outcome, kOpen, kSecond);
  }
  if (outcome.load(memory_order_acquire) == kFailed) report_trouble(trouble);
  return true;
}

// The process's first thread ends by itself: loft has no threads from now on.
void leave() { thread.end(); }

// The child has no socket until it sets the option: most children run another program at once or
// leave by _exit, which would leave a file there.
void in_child() {
  following.reset();
  thread.forget();
  options.socket.store(0, memory_order_relaxed);
  followed.store(0, memory_order_relaxed);
}

}  // namespace

LOFT_AT_LOAD void follow() {
  if (get(options.socket) == followed.load(memory_order_relaxed)) return;
  const char* why = nullptr;
  const inspect::Table* const found = inspect::library(&why);
  const os::Guard guard(following);
  const uint64_t wanted = get(options.socket);
  if (wanted == followed.load(memory_order_relaxed)) return;
  followed.store(wanted, memory_order_relaxed);
  thread.stop();
  place[0] = 0;
  if (wanted == 0) return;
  if (found == nullptr) return report_trouble(why);
  library.store(found, memory_order_relaxed);
  if (begin_to_serve()) return;
  report_trouble(state.load(memory_order_relaxed) == kRefused
                     ? "the process's first thread has ended, so loft starts none any more"
                     : "the system gives no thread for it now");
}

LOFT_AT_LOAD void enable(ChangeOption change) {
  served.set_option = change;
  os::on_fork(nullptr, nullptr, in_child);
  background::at_end_of_first_thread.store(leave, memory_order_relaxed);
  follow();
}

LOFT_AT_LOAD void leave_place() {
  const inspect::Table* const table = library.load(memory_order_relaxed);
  if (table != nullptr) table->leave();
}

}  // namespace loft::serve
