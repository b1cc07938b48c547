// Threads of loft's own, with POSIX threads: what own_thread.cc asks of the system.
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>

#include "base/bits.h"
#include "os/os.h"
#include "os/own_thread.h"
#include "os/posix_threads.h"

namespace loft::os {

namespace {

constexpr uint64_t kLongestNs = 1'000'000'000;

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

bool create_thread(pthread_t* thread, void* (*begin)(void*), void* argument) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  const size_t least = kStackBytes + thread_local_bytes();
  pthread_attr_setstacksize(
      &attributes, round_up(most(least, static_cast<size_t>(PTHREAD_STACK_MIN)), page_size()));
  auto* const create = creator_of_threads();
  int error = create(thread, &attributes, begin, argument);
  pthread_attr_destroy(&attributes);
  // libc keeps more there than was found.
  if (error == EINVAL) error = create(thread, nullptr, begin, argument);
  return error == 0;
}

}  // namespace

Unseen::Unseen() : error_(static_cast<unsigned>(errno)) {
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation_);
}

Unseen::~Unseen() {
  pthread_setcancelstate(cancellation_, nullptr);
  errno = static_cast<int>(error_);
}

bool OwnThread::caller_may_create() { return is_thread_of_libc(); }

void OwnThread::join() {
  if (runs_.load(memory_order_relaxed)) {
    pthread_join(__builtin_bit_cast(pthread_t, thread_), nullptr);
  }
  runs_.store(false, memory_order_relaxed);
}

bool OwnThread::create() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  // The new thread inherits the mask, so it never receives a signal of the program.
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  has_returned_.store(false, memory_order_relaxed);
  const auto begin_here = [](void* self) -> void* {
    auto* const thread = static_cast<OwnThread*>(self);
    settle_in(thread->name_);
    thread->has_settled_.store(1, memory_order_relaxed);
    wake_one(&thread->has_settled_);
    return begin(self);
  };
  has_settled_.store(0, memory_order_relaxed);
  const bool created = create_thread(&thread, begin_here, this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  // Nobody sees it as it is before. Relaxed: the system orders what it tells of the thread.
  // (Not for ever: a filter may end the thread at what it begins with.)
  if (created) wait_on_word_for(&has_settled_, 0, kLongestNs);
  if (created) thread_ = __builtin_bit_cast(unsigned long, thread);
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

bool on_end_of_first_thread(void (*hook)(), bool is_first) {
  if (!is_first && !is_first_thread()) return false;
  static constinit bool key_made = false;
  static pthread_key_t key;
  const auto call = [](void* function) { reinterpret_cast<void (*)()>(function)(); };
  if (!key_made) key_made = pthread_key_create(&key, call) == 0;
  return key_made && pthread_setspecific(key, reinterpret_cast<void*>(hook)) == 0;
}

}  // namespace loft::os
