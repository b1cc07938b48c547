#include "serve/server.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <new>

#include "base/bits.h"
#include "base/options.h"
#include "cache/census.h"
#include "files/output.h"
#include "os/fault.h"
#include "os/lock.h"
#include "os/os.h"
#include "os/own_thread.h"
#include "runtime/background.h"
#include "serve/connection.h"
#include "serve/place.h"

namespace loft::serve {

namespace {

// Connections at a time, and how many of these are answered: the others are told so.
constexpr unsigned kConnections = 16;
constexpr unsigned kAnswered = 12;

constexpr uint64_t kMillisecond = 1'000'000;

// Whoever ends the thread waits as long as this for it: poll cannot sleep on the thread's word.
constexpr uint64_t kLongestSleep = 200 * kMillisecond;
// After a call that could not be taken, because the process may have no more files, or no memory.
constexpr uint64_t kPause = 100 * kMillisecond;

enum State : uint32_t { kNobody, kServing, kLeaving, kRefused };
constinit Atomic<uint32_t> state{kNobody};

// How the thread's beginning came out. Release pairs with the acquire of who started it and reads
// `trouble`.
enum Outcome : uint32_t { kOpen, kServes, kFailed };
constinit Atomic<uint32_t> outcome{kOpen};
constinit Trouble trouble;

constinit Place place;
constinit ChangeOption change_option_by = nullptr;  // constant after enable

// Held while the option is followed.
constinit os::Lock following;
constinit Atomic<uint64_t> followed{0};  // the option's value. Relaxed: written under the lock

// What the thread works with. Borrowed: its stack is small.
class Desk {
 public:
  explicit Desk(int listener) : listener_(listener) {}

  void serve() {
    while (state.load(memory_order_relaxed) == kServing) look();
    for (Connection& connection : connections_) {
      if (!connection.is_free()) connection.close();
    }
  }

 private:
  // Waits for what comes next, and lets each connection go a step.
  void look() {
    uint64_t now = os::now_ns();
    uint64_t until = now + kLongestSleep;
    unsigned busy = 0;
    for (unsigned i = 0; i < kConnections; ++i) {
      const Connection& connection = connections_[i];
      // poll leaves out descriptors below 0.
      polled_[i] = {connection.is_free() ? -1 : connection.peer(), connection.awaited(), 0};
      if (connection.is_free()) continue;
      ++busy;
      until = least(until, connection.deadline());
    }
    const bool listens = busy != kConnections && now >= listen_from_;
    if (!listens && busy != kConnections) until = least(until, listen_from_);
    polled_[kConnections] = {listens ? listener_ : -1, POLLIN, 0};
    const uint64_t sleep = until <= now ? 0 : (until - now + kMillisecond - 1) / kMillisecond;
    if (poll(polled_, kConnections + 1, static_cast<int>(sleep)) < 0) {
      // A filter may refuse the call, and nothing is known of the descriptors then.
      os::wait_on_word_for(&state, kServing, kPause);
      return;
    }
    now = os::now_ns();
    for (unsigned i = 0; i < kConnections; ++i) {
      Connection& connection = connections_[i];
      if (connection.is_free()) continue;
      // The time first: a peer that goes on and on does not get more of it.
      if (now >= connection.deadline()) {
        connection.on_time(now);
      } else if (polled_[i].revents != 0) {
        connection.on_events(change_option_by, now);
      }
    }
    if (polled_[kConnections].revents != 0) take_one(now);
  }

  void take_one(uint64_t now) {
    Connection* free = nullptr;
    unsigned busy = 0;
    for (Connection& connection : connections_) {
      if (connection.is_free()) {
        free = &connection;
      } else {
        ++busy;
      }
    }
    if (free == nullptr) return;
    const int peer =
        above_standard(accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (peer < 0) {
      if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) listen_from_ = now + kPause;
      return;
    }
    if (!is_trusted(peer)) {
      free->refuse(peer, now, kForbidden, "this is for the program's own user, and for root");
    } else if (busy >= kAnswered) {
      free->refuse(peer, now, kUnavailable, "too many connections; try again later");
    } else {
      free->begin(peer, now);
    }
  }

  // Who may look into the process by other ways, too: root, and its user, unless the process can
  // take the rights of another one again.
  static bool is_trusted(int peer) {
    ucred who = {};
    socklen_t size = sizeof(who);
    if (getsockopt(peer, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return false;
    if (who.uid == 0) return true;
    uid_t real = 0;
    uid_t effective = 0;
    uid_t saved = 0;
    return getresuid(&real, &effective, &saved) == 0 && who.uid == effective && real == effective &&
           saved == effective;
  }

  const int listener_;
  uint64_t listen_from_ = 0;
  Connection connections_[kConnections];
  pollfd polled_[kConnections + 1];
};

void tell(Outcome now) {
  outcome.store(now, memory_order_release);
  os::wake_one(&outcome);
}

// Returns the descriptor, or -1 with the reason in `trouble`.
int begin_to_listen() {
  const char* const path = path_of(options.socket);
  if (path == nullptr) {
    trouble = {"the option has been cleared", 0};
    return -1;
  }
  if (!os::leave_files()) {
    trouble = {"the system gives a thread no files of its own (close_range)", 0};
    return -1;
  }
  return place.open(path, trouble);
}

// The memory of the desk, while there is one. The child of a fork uses its parent's.
constinit void* desk_memory = nullptr;

void serve_on(int listener) {
  if (desk_memory == nullptr) desk_memory = files::borrow(sizeof(Desk));
  if (desk_memory == nullptr) {
    trouble = {"there is no memory for it", 0};
    return tell(kFailed);
  }
  tell(kServes);
  void* const memory = desk_memory;
  (new (memory) Desk(listener))->serve();
  desk_memory = nullptr;  // first: a fork may come between
  files::give_back(memory, sizeof(Desk));
}

// Returns when told to leave, or if there can be no socket.
void run() {
  census::do_without_cache();
  const int listener = begin_to_listen();
  if (listener < 0) {
    tell(kFailed);
  } else {
    serve_on(listener);
  }
  // Before the descriptor is closed: until then nobody takes the file for a dead one, and no other
  // file has its number.
  place.remove();
  if (listener >= 0) close(listener);
  uint32_t expected = kServing;
  state.compare_exchange_strong(expected, kNobody, memory_order_relaxed);
}

constinit os::OwnThread thread("loft-socket", state, {kNobody, kServing, kLeaving, kRefused}, run);

bool may_run() { return path_of(options.socket) != nullptr; }

void report_trouble(const Trouble& why) {
  const char* const path = why.where != nullptr ? why.where : path_of(options.socket);
  if (path == nullptr) return;  // the option has been cleared meanwhile
  constexpr size_t kQuotedPath = 200;
  Text line;
  line << "the socket ";
  if (__builtin_strlen(path) <= kQuotedPath) line << path << " ";
  line << "is not served: " << why.what;
  if (why.error != 0) line << " (error " << uint64_t{static_cast<unsigned>(why.error)} << ")";
  os::report(line);
}

// How long its starter waits for the thread to have a socket. It takes a tenth of a millisecond,
// and longer on a machine that is very busy.
constexpr uint64_t kLongestBeginning = 10'000 * kMillisecond;

// Starts the thread, and returns once it has a socket or knows why not. False if there is no
// thread.
bool begin_to_serve() {
  outcome.store(kOpen, memory_order_relaxed);
  trouble = Trouble();
  if (!thread.start(may_run)) return false;
  const uint64_t from = os::now_ns();
  while (outcome.load(memory_order_acquire) == kOpen && os::now_ns() - from < kLongestBeginning) {
    os::wait_on_word_for(&outcome, kOpen, kLongestSleep);
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
  place.forget();
  thread.forget();
  options.socket.store(0, memory_order_relaxed);
  followed.store(0, memory_order_relaxed);
}

}  // namespace

void follow() {
  if (get(options.socket) == followed.load(memory_order_relaxed)) return;
  const os::Guard guard(following);
  const uint64_t wanted = get(options.socket);
  if (wanted == followed.load(memory_order_relaxed)) return;
  followed.store(wanted, memory_order_relaxed);
  thread.stop();
  if (wanted == 0 || begin_to_serve()) return;
  const bool never = state.load(memory_order_relaxed) == kRefused;
  report_trouble({never ? "the process's first thread has ended, so loft starts none any more"
                        : "the system gives no thread for it now",
                  0});
}

void enable(ChangeOption change) {
  change_option_by = change;
  os::on_fork(nullptr, nullptr, in_child);
  background::at_end_of_first_thread.store(leave, memory_order_relaxed);
  follow();
}

void leave_place() { place.remove(); }

}  // namespace loft::serve
