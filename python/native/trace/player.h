// Carries out a plan under the allocator that this process has: one thread for each that was
// recorded, each its own calls in their order. For loft-replay and bench/replay.cc.
//
// Two things tie threads together. Who frees an object that another allocates waits for it; so does
// who starts or joins a thread. And no thread runs further ahead of the slowest than `window`
// tickets, so that no more is alive at a time than was in the recording, give or take the window;
// with 0 the order is the recorded one. A ticket depends on lower ones alone, and the thread whose
// next ticket is the lowest never waits for the window: nothing can hang.
//
// Every object is stamped, and the stamps are looked at before it is freed or moved. Tables are
// mapped, shared, so that they are no part of what the system counts as this process's own memory.
#ifndef LOFT_TRACE_PLAYER_H_
#define LOFT_TRACE_PLAYER_H_

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "plan.h"
#include "stamps.h"
#include "usage.h"

// C23's, and what musl has late or never: not every allocator has them.
extern "C" {
__attribute__((weak)) void* pvalloc(size_t size) noexcept;
__attribute__((weak)) void* reallocarray(void* p, size_t count, size_t size) noexcept;
__attribute__((weak)) void free_sized(void* p, size_t size);
__attribute__((weak)) void free_aligned_sized(void* p, size_t alignment, size_t size);
}

namespace trace {

struct Counts {
  uint64_t damaged;    // objects whose stamps were not what they had been
  uint64_t dirty;      // calloc's that were not zero
  uint64_t failed;     // calls that had succeeded in the recording
  uint64_t succeeded;  // calls that had failed
  uint64_t unaligned;
};

struct Sampled {
  uint64_t ticket;
  uint64_t live_bytes;
  uint64_t own_kib;  // resident, what is shared or a file left out
};

struct Played {
  double seconds;
  double user;
  double system;
  uint64_t minor_faults;
  uint64_t major_faults;
  uint64_t sleeps;
  uint64_t start_kib;
  uint64_t end_kib;
  Counts counts;
};

class Player {
 public:
  Player() = default;
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;
  ~Player() {
    if (header_ == nullptr) return;
    unmap(threads_, header_->threads);
    unmap(samples_, header_->samples);
    unmap(places_, header_->places);
    munmap(const_cast<PlanHeader*>(header_), header_->file_bytes);
  }

  // Null, or why the plan cannot be played.
  const char* open_plan(const char* path) {
    const int file = ::open(path, O_RDONLY | O_CLOEXEC);
    struct stat about;
    if (file < 0 || fstat(file, &about) != 0) return "the plan cannot be read";
    const auto bytes = static_cast<size_t>(about.st_size);
    void* p = mmap(nullptr, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0);
    close(file);
    if (bytes < sizeof(PlanHeader) || p == MAP_FAILED) return "the plan cannot be mapped";
    const auto* header = static_cast<const PlanHeader*>(p);
    if (header->magic != kPlanMagic || header->file_bytes != bytes) return "this is no plan";
    header_ = header;
    plans_ = reinterpret_cast<const PlanThread*>(header_ + 1);
    steps_ = reinterpret_cast<const Step*>(plans_ + header_->threads);
    places_ = table<Place>(header_->places);
    samples_ = table<Sampled>(header_->samples);
    threads_ = table<Thread>(header_->threads);
    if (places_ == nullptr || samples_ == nullptr || threads_ == nullptr) {
      return "there is not enough memory for the tables of this replay";
    }
    memory_.open();
    return nullptr;
  }

  const PlanHeader& header() const { return *header_; }
  const PlanThread& plan(uint64_t thread) const { return plans_[thread]; }
  const Sampled& sample(uint64_t i) const { return samples_[i]; }
  uint64_t table_bytes() const { return table_bytes_; }

  Played play(uint64_t window, Touch touch) {
    window_ = window;
    stamps_ = Stamps(touch);
    alone_ = header_->threads <= 1;
    for (uint64_t i = 0; i < header_->threads; i++) {
      threads_[i].player = this;
      threads_[i].plan = &plans_[i];
      threads_[i].next = plans_[i].first_ticket;
    }
    Played played = {};
    played.start_kib = memory_.kib();
    rusage before;
    rusage after;
    getrusage(RUSAGE_SELF, &before);
    const uint64_t started = now_ns();
    // Those that nobody starts are there from the first moment on. This thread is one of them.
    for (uint64_t i = 1; i < header_->threads; i++) {
      if (plans_[i].spawned == 0) launch(threads_[i]);
    }
    if (header_->threads != 0) run(threads_[0]);
    for (uint64_t i = 1; i < header_->threads; i++) join(threads_[i]);
    played.seconds = static_cast<double>(now_ns() - started) * 1e-9;
    getrusage(RUSAGE_SELF, &after);
    played.end_kib = memory_.kib();
    played.user = seconds(after.ru_utime) - seconds(before.ru_utime);
    played.system = seconds(after.ru_stime) - seconds(before.ru_stime);
    played.minor_faults = static_cast<uint64_t>(after.ru_minflt - before.ru_minflt);
    played.major_faults = static_cast<uint64_t>(after.ru_majflt - before.ru_majflt);
    played.sleeps = static_cast<uint64_t>(after.ru_nvcsw - before.ru_nvcsw);
    for (uint64_t i = 0; i < header_->threads; i++) {
      const Counts& one = threads_[i].counts;
      played.counts.damaged += one.damaged;
      played.counts.dirty += one.dirty;
      played.counts.failed += one.failed;
      played.counts.succeeded += one.succeeded;
      played.counts.unaligned += one.unaligned;
    }
    return played;
  }

 private:
  // An object. Null until it is there; kNone if it should be and is not.
  struct Place {
    void* p;
    uint64_t size;
    // What it is stamped with: its first, and kept when it moves.
    uint64_t stamp;
  };
  static inline void* const kNone = reinterpret_cast<void*>(1);

  struct alignas(128) Thread {
    // The ticket of the step that it is about to take: all before are done. UINT64_MAX at its end.
    // Others look at it, so it has a line of its own.
    uint64_t next;
    alignas(128) Player* player;
    const PlanThread* plan;
    // Up to this ticket nobody needs to be waited for.
    uint64_t limit;
    Counts counts;
    pthread_t handle;
    bool launched;
    bool joined;
  };

  // Populated, so that no fault of these is in the time.
  template <typename T>
  T* table(uint64_t count) {
    const size_t bytes = (count + 1) * sizeof(T);
    table_bytes_ += bytes;
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return p == MAP_FAILED ? nullptr : static_cast<T*>(p);
  }

  template <typename T>
  static void unmap(T* table, uint64_t count) {
    if (table != nullptr) munmap(table, (count + 1) * sizeof(T));
  }

  // Shorter and then longer pauses: there may be more threads than processors.
  static void pause(unsigned& times) {
    times++;
    if (times < 64) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    } else if (times < 256) {
      sched_yield();
    } else {
      const timespec shortly = {0, times < 1024 ? 20000 : 500000};
      nanosleep(&shortly, nullptr);
    }
  }

  [[gnu::noinline]] void wait_for_window(Thread& thread, uint64_t ticket) const {
    unsigned times = 0;
    for (;;) {
      uint64_t slowest = UINT64_MAX;
      for (uint64_t i = 0; i < header_->threads; i++) {
        if (&threads_[i] == &thread) continue;
        // Acquire: what the others did before is done for us too.
        const uint64_t next = __atomic_load_n(&threads_[i].next, __ATOMIC_ACQUIRE);
        if (next < slowest) slowest = next;
      }
      thread.limit = slowest > UINT64_MAX - window_ ? UINT64_MAX : slowest + window_;
      if (ticket <= thread.limit) return;
      pause(times);
    }
  }

  // The object at this place, when it is there.
  [[gnu::noinline]] static void* wait_for(const Place& place) {
    unsigned times = 0;
    for (;;) {
      // Acquire: with the object come its size and its stamp.
      if (void* p = __atomic_load_n(&place.p, __ATOMIC_ACQUIRE)) return p;
      pause(times);
    }
  }

  [[gnu::noinline]] void launch(Thread& thread) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 512 << 10);
    const auto body = [](void* p) -> void* {
      auto* self = static_cast<Thread*>(p);
      self->player->run(*self);
      return nullptr;
    };
    // Where the system has no more threads, one that ends makes room.
    unsigned times = 256;
    while (pthread_create(&thread.handle, &attributes, body, &thread) != 0) pause(times);
    // Release: with it comes the handle.
    __atomic_store_n(&thread.launched, true, __ATOMIC_RELEASE);
    pthread_attr_destroy(&attributes);
  }

  [[gnu::noinline]] void run(Thread& thread) {
    const Step* step = steps_ + thread.plan->first_step;
    const Step* const end = step + thread.plan->steps;
    uint64_t ticket = thread.plan->first_ticket;
    for (; step != end; step++) {
      if (!alone_) {
        ticket += step->tickets;
        // Release: all steps before are done, for whoever reads this.
        __atomic_store_n(&thread.next, ticket, __ATOMIC_RELEASE);
        if (ticket > thread.limit) wait_for_window(thread, ticket);
      }
      take(thread, *step);
    }
    __atomic_store_n(&thread.next, UINT64_MAX, __ATOMIC_RELEASE);
  }

  [[gnu::noinline]] static void* positioned(const Step& step) {
    void* p = nullptr;
    return posix_memalign(&p, step.count, step.size) == 0 ? p : nullptr;
  }

  [[gnu::noinline]] static void* resized(void* p, size_t count, size_t size) {
    if (reallocarray != nullptr) return reallocarray(p, count, size);
    size_t bytes = 0;
    return __builtin_mul_overflow(count, size, &bytes) ? nullptr : realloc(p, bytes);
  }

  [[gnu::noinline]] static void* whole_pages(size_t size) {
    if (pvalloc != nullptr) return pvalloc(size);
    const size_t page = static_cast<size_t>(getpagesize());
    return valloc((size + page - 1) / page * page);
  }

  // By a step, and at the end: whoever comes first joins it, and the other waits for its last step.
  [[gnu::noinline]] void join(Thread& thread) const {
    if (&thread == threads_) return;  // the one that nobody has launched
    unsigned times = 0;
    // Acquire: the handle is there.
    while (!__atomic_load_n(&thread.launched, __ATOMIC_ACQUIRE)) pause(times);
    if (!__atomic_exchange_n(&thread.joined, true, __ATOMIC_RELAXED)) {
      pthread_join(thread.handle, nullptr);
      return;
    }
    // Acquire: all that it did is done for us, too.
    while (__atomic_load_n(&thread.next, __ATOMIC_ACQUIRE) != UINT64_MAX) pause(times);
  }

  [[gnu::noinline]] void look(const Step& step) {
    samples_[step.place] = {step.count, step.size, memory_.kib()};
  }

  // What is common is inlined here, as it is no part of what is measured.
  [[gnu::always_inline]] void take(Thread& thread, const Step& step) {
    switch (step.call) {
      case kMalloc:
        return taken(thread, step, malloc(step.size));
      case kCalloc:
        return given(thread, step, calloc(step.count, step.size));
      case kReallocNew:
        return given(thread, step, realloc(nullptr, step.size));
      case kAlignedAlloc:
        return given(thread, step, aligned_alloc(step.count, step.size));
      case kMemalign:
        return given(thread, step, memalign(step.count, step.size));
      case kPosixMemalign:
        return given(thread, step, positioned(step));
      case kValloc:
        return given(thread, step, valloc(step.size));
      case kPvalloc:
        return given(thread, step, whole_pages(step.size));
      case kRealloc:
      case kReallocArray:
        return move(thread, step);
      case kFree:
      case kFreeSized:
      case kFreeAligned:
        return drop(thread, step);
      case kSpawn:
        return launch(threads_[step.place]);
      case kJoin:
        return join(threads_[step.place]);
      case kSample:
        return look(step);
      default:
        return;
    }
  }

  // Puts the object where whoever frees it looks.
  void keep(const Step& step, void* p, uint64_t size, uint64_t stamp) {
    Place& place = places_[step.place];
    place.size = size;
    place.stamp = stamp;
    if ((step.flags & kHanded) != 0) {
      // Release: size and stamp, and what is written into the object, come along.
      __atomic_store_n(&place.p, p, __ATOMIC_RELEASE);
    } else {
      place.p = p;
    }
  }

  // What nearly all calls are: malloc, which gives what it is asked for.
  [[gnu::always_inline]] void taken(Thread& thread, const Step& step, void* p) {
    if (__builtin_expect(p == nullptr || (step.flags & kFailed) != 0, 0)) {
      return given(thread, step, p);
    }
    const uint64_t stamp = Stamps::of(step.place);
    stamps_.write(p, 0, step.size, stamp);
    keep(step, p, step.size, stamp);
  }

  [[gnu::noinline]] void given(Thread& thread, const Step& step, void* p) {
    if ((step.flags & kFailed) != 0) {
      if (p == nullptr) return;
      // A realloc of nothing to nothing is no failure.
      if ((step.flags & kGone) == 0) thread.counts.succeeded++;
      free(p);
      return;
    }
    const uint64_t size = step.call == kCalloc ? step.count * step.size : step.size;
    if (p == nullptr) {
      if (size != 0) thread.counts.failed++;
      return keep(step, kNone, 0, 0);
    }
    const bool aligned =
        step.call == kAlignedAlloc || step.call == kMemalign || step.call == kPosixMemalign;
    const auto address = reinterpret_cast<uintptr_t>(p);
    if (aligned && (step.count & (step.count - 1)) == 0 && (address & (step.count - 1)) != 0) {
      thread.counts.unaligned++;
    }
    const uint64_t stamp = Stamps::of(step.place);
    if (step.call == kCalloc) {
      if (!stamps_.replace_zeros(p, size, stamp)) thread.counts.dirty++;
    } else {
      stamps_.write(p, 0, size, stamp);
    }
    keep(step, p, size, stamp);
  }

  [[gnu::noinline]] void move(Thread& thread, const Step& step) {
    Place& old = places_[step.old_place];
    void* p = (step.flags & kOldHanded) != 0 ? wait_for(old) : old.p;
    if (p == kNone) p = nullptr;
    const Place was = old;
    if (p != nullptr && !Stamps::are_ends(p, was.size, was.stamp)) thread.counts.damaged++;
    void* q = step.call == kRealloc ? realloc(p, step.size) : resized(p, step.count, step.size);
    if ((step.flags & kFailed) != 0) {
      if ((step.flags & kGone) != 0) {
        free(q);
      } else if (q != nullptr) {
        // It has moved all the same.
        thread.counts.succeeded++;
        old.p = q;
        const uint64_t now = step.call == kRealloc ? step.size : step.count * step.size;
        if (now < was.size) {
          old.size = now;
          stamps_.write(q, 0, now, was.stamp);
        }
      }
      return;
    }
    const uint64_t size = step.call == kRealloc ? step.size : step.count * step.size;
    if (q == nullptr) {
      if (size == 0) return keep(step, kNone, 0, 0);
      thread.counts.failed++;
      // The old one is still there, and nobody will ask for it.
      free(p);
      return keep(step, kNone, 0, 0);
    }
    // What grew has its last word still; of what shrank another word is the last one now.
    const bool grew = p != nullptr && size >= was.size;
    const uint64_t stamp = p == nullptr ? Stamps::of(step.place) : was.stamp;
    if (grew && !Stamps::are_ends(q, was.size, stamp)) thread.counts.damaged++;
    if (p != nullptr && !grew &&
        !Stamps::are_ends(q, size < sizeof(stamp) ? size : sizeof(stamp), stamp)) {
      thread.counts.damaged++;
    }
    // Of what there was, if there was anything, all words that are left have theirs.
    const uint64_t kept = p == nullptr ? 0 : grew ? was.size : size;
    stamps_.write(q, kept / sizeof(stamp), size, stamp);
    keep(step, q, size, stamp);
  }

  void drop(Thread& thread, const Step& step) {
    if ((step.flags & kFailed) != 0) return free(nullptr);
    Place& place = places_[step.place];
    void* p = (step.flags & kHanded) != 0 ? wait_for(place) : place.p;
    if (p == kNone) return free(nullptr);
    if (!stamps_.are_whole(p, place.size, place.stamp)) {
      thread.counts.damaged++;
    }
    if (step.call == kFreeSized && free_sized != nullptr) return free_sized(p, place.size);
    if (step.call == kFreeAligned && free_aligned_sized != nullptr) {
      return free_aligned_sized(p, step.count, place.size);
    }
    free(p);
  }

  const PlanHeader* header_ = nullptr;
  const PlanThread* plans_ = nullptr;
  const Step* steps_ = nullptr;
  Place* places_ = nullptr;
  Sampled* samples_ = nullptr;
  Thread* threads_ = nullptr;
  uint64_t table_bytes_ = 0;
  uint64_t window_ = 0;
  OwnMemory memory_;
  Stamps stamps_{Touch::kAll};
  bool alone_ = false;
};

}  // namespace trace

#endif  // LOFT_TRACE_PLAYER_H_
