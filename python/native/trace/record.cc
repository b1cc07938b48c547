// libloft-record.so: preloaded by `loft record` into a program, in front of its allocator. It takes
// libc's names for the calls of the allocator and for the start and the end of threads, notes each
// and makes it. operator new and delete come by as malloc and free, unless an allocator replaces
// them too; nothing of the program's behaviour is to change but its speed.
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>

#include "recorder.h"

#define LOFT_TAKES __attribute__((visibility("default")))

namespace {

using recorder::here;
using recorder::note;
using recorder::Thread;
using recorder::ticket;
using recorder::ticks;
using trace::Call;
using trace::Event;

// The function of this name that comes behind this library.
template <typename Function>
class Behind {
 public:
  constexpr explicit Behind(const char* name) : name_(name) {}
  Function* operator*() {
    // Relaxed: whoever else looks it up finds the same.
    Function* function = __atomic_load_n(&function_, __ATOMIC_RELAXED);
    if (__builtin_expect(function == nullptr, 0)) {
      function = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name_));
      __atomic_store_n(&function_, function, __ATOMIC_RELAXED);
    }
    return function;
  }

 private:
  const char* name_;
  Function* function_ = nullptr;
};

constinit Behind<void*(size_t)> next_malloc("malloc");
constinit Behind<void*(size_t, size_t)> next_calloc("calloc");
constinit Behind<void*(void*, size_t)> next_realloc("realloc");
constinit Behind<void(void*)> next_free("free");
constinit Behind<void*(size_t, size_t)> next_aligned_alloc("aligned_alloc");
constinit Behind<void*(size_t, size_t)> next_memalign("memalign");
constinit Behind<int(void**, size_t, size_t)> next_posix_memalign("posix_memalign");
constinit Behind<void*(size_t)> next_valloc("valloc");
constinit Behind<void*(size_t)> next_pvalloc("pvalloc");
constinit Behind<void(void*, size_t)> next_free_sized("free_sized");
constinit Behind<void(void*, size_t, size_t)> next_free_aligned_sized("free_aligned_sized");
constinit Behind<int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)> next_create(
    "pthread_create");
constinit Behind<int(pthread_t, void**)> next_join("pthread_join");
constinit Behind<void*(const char*, int)> next_dlopen("dlopen");

// What is asked for while the names behind are looked up: dlsym may allocate. Never freed.
alignas(16) char first_memory[16 << 10];
size_t first_used;
int looking;

void* take_first(size_t size) {
  // Relaxed: nobody else reads what is taken here.
  const size_t at = __atomic_fetch_add(&first_used, (size + 15) / 16 * 16, __ATOMIC_RELAXED);
  return size <= sizeof(first_memory) && at <= sizeof(first_memory) - size ? first_memory + at
                                                                           : nullptr;
}
bool is_first(const void* p) {
  return p >= first_memory && p < first_memory + sizeof(first_memory);
}

// True while this thread, or another, looks the names up for the first time.
bool early() {
  static bool known;
  if (__builtin_expect(__atomic_load_n(&known, __ATOMIC_ACQUIRE), 1)) return false;
  if (__atomic_exchange_n(&looking, 1, __ATOMIC_ACQ_REL) != 0) return true;
  *next_malloc, *next_calloc, *next_realloc, *next_free;
  __atomic_store_n(&known, true, __ATOMIC_RELEASE);
  return false;
}

Event event_of(Call call) {
  Event event = {};
  event.call = call;
  event.ticket = ticket();
  event.ticks = ticks();
  return event;
}

void* allocated(Call call, uint64_t count, uint64_t size, void* p) {
  if (Thread* thread = here()) {
    Event event = event_of(call);
    event.nothing = p == nullptr;
    event.count = count;
    event.size = size;
    event.address = reinterpret_cast<uint64_t>(p);
    note(thread, event);
  }
  return p;
}

void freeing(Call call, void* p, uint64_t alignment, uint64_t size) {
  if (Thread* thread = here()) {
    Event event = event_of(call);
    event.nothing = p == nullptr;
    event.count = alignment;
    event.size = size;
    event.address = reinterpret_cast<uint64_t>(p);
    note(thread, event);
  }
}

// Notes a realloc that is made in between: see Event.
class Moving {
 public:
  Moving(Call call, void* old, uint64_t count, uint64_t size) : thread_(here()) {
    if (thread_ == nullptr) return;
    event_ = event_of(call);
    event_.count = count;
    event_.size = size;
    event_.old = reinterpret_cast<uint64_t>(old);
  }
  void* moved(void* p) {
    if (thread_ == nullptr) return p;
    event_.end = ticket();
    event_.nothing = p == nullptr;
    event_.address = reinterpret_cast<uint64_t>(p);
    note(thread_, event_);
    return p;
  }

 private:
  Thread* thread_;
  Event event_;
};

void* run_thread(void* p) {
  auto* thread = static_cast<Thread*>(p);
  recorder::start(thread);
  return thread->body(thread->argument);
}

}  // namespace

extern "C" {

LOFT_TAKES void* malloc(size_t size) noexcept {
  if (early()) return take_first(size);
  return allocated(trace::kMalloc, 0, size, (*next_malloc)(size));
}

LOFT_TAKES void* calloc(size_t count, size_t size) noexcept {
  // Nothing has been in this memory before.
  if (early()) return size != 0 && count > SIZE_MAX / size ? nullptr : take_first(count * size);
  return allocated(trace::kCalloc, count, size, (*next_calloc)(count, size));
}

LOFT_TAKES void* realloc(void* old, size_t size) noexcept {
  if (early() || is_first(old)) {
    void* p = malloc(size);
    // What lies behind the old one is this library's own.
    const auto left = static_cast<size_t>(first_memory + sizeof(first_memory) -
                                          static_cast<char*>(old == nullptr ? first_memory : old));
    if (p != nullptr && old != nullptr) memcpy(p, old, size < left ? size : left);
    return p;
  }
  if (old == nullptr) {
    return allocated(trace::kReallocNew, 0, size, (*next_realloc)(nullptr, size));
  }
  Moving moving(trace::kRealloc, old, 0, size);
  return moving.moved((*next_realloc)(old, size));
}

LOFT_TAKES void* reallocarray(void* old, size_t count, size_t size) noexcept {
  Moving moving(trace::kReallocArray, old, count, size);
  size_t bytes;
  // Not the one behind, which may itself call realloc: that would be noted twice.
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return moving.moved(nullptr);
  }
  return moving.moved((*next_realloc)(old, bytes));
}

LOFT_TAKES void free(void* p) noexcept {
  if (early() || is_first(p)) return;
  freeing(trace::kFree, p, 0, 0);
  (*next_free)(p);
}

LOFT_TAKES void free_sized(void* p, size_t size) noexcept {
  freeing(trace::kFreeSized, p, 0, size);
  if (*next_free_sized != nullptr) {
    (*next_free_sized)(p, size);
  } else {
    (*next_free)(p);
  }
}

LOFT_TAKES void free_aligned_sized(void* p, size_t alignment, size_t size) noexcept {
  freeing(trace::kFreeAligned, p, alignment, size);
  if (*next_free_aligned_sized != nullptr) {
    (*next_free_aligned_sized)(p, alignment, size);
  } else {
    (*next_free)(p);
  }
}

LOFT_TAKES void cfree(void* p) noexcept { free(p); }

LOFT_TAKES void* aligned_alloc(size_t alignment, size_t size) noexcept {
  return allocated(trace::kAlignedAlloc, alignment, size, (*next_aligned_alloc)(alignment, size));
}

LOFT_TAKES void* memalign(size_t alignment, size_t size) noexcept {
  return allocated(trace::kMemalign, alignment, size, (*next_memalign)(alignment, size));
}

LOFT_TAKES int posix_memalign(void** into, size_t alignment, size_t size) noexcept {
  void* p = nullptr;
  const int error = (*next_posix_memalign)(&p, alignment, size);
  if (error == 0) *into = p;
  allocated(trace::kPosixMemalign, alignment, size, error == 0 ? p : nullptr);
  return error;
}

LOFT_TAKES void* valloc(size_t size) noexcept {
  return allocated(trace::kValloc, 0, size, (*next_valloc)(size));
}

LOFT_TAKES void* pvalloc(size_t size) noexcept {
  return allocated(trace::kPvalloc, 0, size, (*next_pvalloc)(size));
}

LOFT_TAKES int pthread_create(pthread_t* handle, const pthread_attr_t* attributes,
                              void* (*body)(void*), void* argument) noexcept {
  Thread* thread = here();
  Thread* child = thread == nullptr ? nullptr : recorder::expect(body, argument);
  if (child == nullptr) return (*next_create)(handle, attributes, body, argument);
  Event event = event_of(trace::kSpawn);
  event.count = child->number;
  note(thread, event);
  const int error = (*next_create)(handle, attributes, run_thread, child);
  // So does the thread itself, but whoever has the handle from here may wait before it does.
  if (error == 0) recorder::started(child, *handle);
  return error;
}

LOFT_TAKES int pthread_join(pthread_t handle, void** result) {
  Thread* thread = here();
  Thread* child = thread == nullptr ? nullptr : recorder::find(handle);
  const int error = (*next_join)(handle, result);
  if (error == 0 && child != nullptr) {
    child->joined = true;
    Event event = event_of(trace::kJoin);
    event.count = child->number;
    note(thread, event);
  }
  return error;
}

// With RTLD_DEEPBIND, which musl has not got, a library would take the names above from the C
// library, past this one. The last call has to be a jump: the C library searches where its caller
// says.
LOFT_TAKES void* dlopen(const char* file, int mode) noexcept {
#ifdef RTLD_DEEPBIND
  mode &= ~RTLD_DEEPBIND;
#endif
  return (*next_dlopen)(file, mode);
}

}  // extern "C"
