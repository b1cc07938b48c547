// Threads of loft's own: how they start and end, and files of their own.
#include "os/own_thread.h"

#include <errno.h>
#include <limits.h>
#include <link.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/keep.h"
#include "base/macros.h"
#include "base/raw_file.h"
#include "os/os.h"
#include "os/symbols.h"

namespace loft::os {

namespace {

constexpr uint64_t kPauseNs = 1'000'000'000;    // after the system has refused a thread
constexpr uint64_t kLongestNs = 1'000'000'000;  // that a new thread may take to settle in

// What the thread's own code needs, beside the thread-local variables of the program: those lie on
// the stack, too.
constexpr size_t kStackBytes = 128 * 1024;

// Of all that is loaded, and the alignment of each.
size_t thread_local_bytes() {
  size_t sum = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* context) {
        for (size_t i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& segment = info->dlpi_phdr[i];
          if (segment.p_type != PT_TLS) continue;
          *static_cast<size_t*>(context) += segment.p_memsz + segment.p_align;
        }
        return 0;
      },
      &sum);
  return sum;
}

// libc's own function, past whatever the program or another library has in its place, because that
// may allocate, or hold locks of its own. The public one (a) in a program that has loft in itself;
// (b) under a sanitizer, which must know of each thread. Not by dlopen or dlsym: libloft.so is
// initialised before all others, and these would initialise the others at once, before the C
// library.
using CreateThread = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
CreateThread* creator_of_threads() {
  if (kSanitized || !is_own_library()) return pthread_create;
  Wanted wanted{"pthread_create", 0};
  find_in_libc(&wanted, 1);
  return wanted.found == 0 ? pthread_create : reinterpret_cast<CreateThread*>(wanted.found);
}

// Where signals find much to save, more than the constant of older headers.
size_t smallest_stack() { return static_cast<size_t>(sysconf(_SC_THREAD_STACK_MIN)); }

bool create_thread(pthread_t* thread, void* (*begin)(void*), void* argument) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  const size_t least = kStackBytes + thread_local_bytes();
  pthread_attr_setstacksize(&attributes, round_up(most(least, smallest_stack()), page_size()));
  auto* const create = creator_of_threads();
  int error = create(thread, &attributes, begin, argument);
  pthread_attr_destroy(&attributes);
  // libc keeps more there than was found.
  if (error == EINVAL) error = create(thread, nullptr, begin, argument);
  return error == 0;
}

// Whether libc's thread number of the caller is its real one. A child that shares its parent's
// memory (vfork) has the parent's thread-local storage, and with it libc's number of the parent's
// thread. The kernel lets only the owner unlock a word that holds the owner's number. Of all calls
// that identify the caller, this one is allowed wherever there are threads.
bool is_thread_of_libc() {
  const uint32_t word = static_cast<uint32_t>(thread_number());
  return syscall(SYS_futex, &word, FUTEX_UNLOCK_PI_PRIVATE, 0, nullptr, nullptr, 0) == 0;
}

// A thread begins with it. It may run where the process's first thread may. Where the system
// refuses, the thread goes on as it is.
void settle_in(const char* name) {
  syscall(SYS_prctl, PR_SET_NAME, name);
  // It has nothing of the thread that starts it: not the scheduling of one that may never be late.
  const sched_param lowest = {};
  syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &lowest);
  size_t processors[128];
  const long bytes = syscall(SYS_sched_getaffinity, getpid(), sizeof(processors), processors);
  if (bytes > 0) syscall(SYS_sched_setaffinity, 0, bytes, processors);
}

// The program sees nothing of a call that starts or ends such a thread: its errno stays, and the
// caller is not cancelled while it waits with a lock held.
class Unseen {
 public:
  Unseen() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation_); }
  ~Unseen() { pthread_setcancelstate(cancellation_, nullptr); }
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;

 private:
  const KeepErrno keep_;
  int cancellation_ = 0;
};

// No file of the calling thread has this number or a higher one. Where there is no /proc, the limit
// on files says so, if nobody has lowered it since.
long numbers_of_files() {
  constexpr char kName[] = "\nFDSize:\t";
  char text[512];
  const int status = raw::open_file("/proc/thread-self/status", O_RDONLY | O_CLOEXEC);
  const long got = status < 0 ? 0 : raw::read_file(status, text, sizeof(text) - 1);
  if (status >= 0) raw::close_file(status);
  text[got > 0 ? got : 0] = 0;
  const char* const line = strstr(text, kName);
  if (line == nullptr) return sysconf(_SC_OPEN_MAX);
  long number = 0;
  for (const char* digit = line + sizeof(kName) - 1; *digit >= '0' && *digit <= '9'; ++digit)
    number = number * 10 + (*digit - '0');
  return number;
}

// What close_range does, on a kernel that lacks it: before 5.9. The copies of standard files are
// closed first, so that a full table has room.
bool leave_one_by_one() {
  if (syscall(SYS_unshare, CLONE_FILES) != 0) return false;
  constexpr int kStandard = 3;
  for (int file = 0; file < kStandard; ++file) raw::close_file(file);
  const long numbers = numbers_of_files();
  for (long file = kStandard; file < numbers; ++file) raw::close_file(static_cast<int>(file));
  return true;
}

}  // namespace

bool OwnThread::is_about_to_end() const {
  return runs_.load(memory_order_relaxed) && !has_returned_.load(memory_order_relaxed);
}

// Relaxed, here and below: the thread acts on the word alone. Its creation orders its other
// accesses, and so does its join.
bool OwnThread::start(bool (*may)()) {
  const Unseen unseen;
  if (word_.load(memory_order_relaxed) != states_.nobody || is_about_to_end()) return false;
  if (now_ns() < next_try_.load(memory_order_relaxed) || !is_thread_of_libc()) return false;
  // The lock's holder starts the thread or waits for its end. Callers of start wait for neither.
  if (!lock_.try_lock()) return false;
  bool started = false;
  if (!ended_ && !is_about_to_end()) {
    join();
    uint32_t expected = states_.nobody;
    if (may() && word_.compare_exchange_strong(expected, states_.running, memory_order_relaxed)) {
      started = create();
      if (!started) {
        next_try_.store(now_ns() + kPauseNs, memory_order_relaxed);
        word_.store(states_.nobody, memory_order_relaxed);
      }
    }
  }
  lock_.unlock();
  return started;
}

void OwnThread::stop() {
  const Unseen unseen;
  const Guard guard(lock_);
  if (!runs_.load(memory_order_relaxed)) return;
  word_.store(states_.leaving, memory_order_relaxed);
  wake_one(&word_);
  join();
  word_.store(states_.nobody, memory_order_relaxed);
}

void OwnThread::end() {
  const Unseen unseen;
  const Guard guard(lock_);
  ended_ = true;
  word_.store(states_.refused, memory_order_relaxed);
  wake_one(&word_);
  join();
}

void OwnThread::join() {
  if (runs_.load(memory_order_relaxed)) pthread_join(thread_, nullptr);
  runs_.store(false, memory_order_relaxed);
}

bool OwnThread::create() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  // The new thread inherits the mask, so it never receives a signal of the program.
  pthread_sigmask(SIG_SETMASK, &all, &before);
  has_returned_.store(false, memory_order_relaxed);
  const auto begin = [](void* self) -> void* {
    auto* const thread = static_cast<OwnThread*>(self);
    settle_in(thread->name_);
    thread->has_settled_.store(1, memory_order_relaxed);
    wake_one(&thread->has_settled_);
    thread->run_();
    // Relaxed: who sees it joins the thread next.
    thread->has_returned_.store(true, memory_order_relaxed);
    return nullptr;
  };
  has_settled_.store(0, memory_order_relaxed);
  const bool created = create_thread(&thread_, begin, this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  // Nobody sees it as it is before. Relaxed: the system orders what it tells of the thread.
  // (Not for ever: a filter may end the thread at what it begins with.)
  if (created) wait_on_word_for(&has_settled_, 0, kLongestNs);
  runs_.store(created, memory_order_relaxed);
  return created;
}

void OwnThread::forget() {
  // A refusal for another reason than `end` holds in the child, too.
  if (ended_ || word_.load(memory_order_relaxed) != states_.refused) {
    word_.store(states_.nobody, memory_order_relaxed);
  }
  lock_.reset();
  ended_ = false;
  runs_.store(false, memory_order_relaxed);
}

LOFT_AT_LOAD bool on_end_of_first_thread(void (*hook)(), bool is_first) {
  if (!is_first && !is_first_thread()) return false;
  static constinit bool key_made = false;
  static pthread_key_t key;
  const auto call = [](void* function) { reinterpret_cast<void (*)()>(function)(); };
  if (!key_made) key_made = pthread_key_create(&key, call) == 0;
  return key_made && pthread_setspecific(key, reinterpret_cast<void*>(hook)) == 0;
}

bool leave_files() {
  const KeepErrno keep;
  constexpr long kCloseRange = 436, kUnshare = 2;  // older headers lack the names
  if (syscall(kCloseRange, 0u, ~0u, kUnshare) == 0) return true;
  // A filter that refuses it otherwise may do worse to a call that it does not expect.
  return errno == ENOSYS && leave_one_by_one();
}

}  // namespace loft::os
