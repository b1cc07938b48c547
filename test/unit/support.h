// What several unit tests need.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>

#include "base/options.h"
#include "heap/large.h"
#include "os/os.h"
#include "remote/message.h"
#include "runtime/youth.h"
#include "slab/slab.h"
#include "space/pagemap.h"

#if defined(__SANITIZE_ADDRESS__)
#define LOFT_TEST_ADDRESS_SANITIZER 1
#elif defined(__SANITIZE_THREAD__)
#define LOFT_TEST_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LOFT_TEST_ADDRESS_SANITIZER 1
#elif __has_feature(thread_sanitizer)
#define LOFT_TEST_THREAD_SANITIZER 1
#endif
#endif

namespace loft::test {

inline constexpr size_t kMiB = 1 << 20;

// Every option back to its default, before and after the scope.
class DefaultOptions {
 public:
  DefaultOptions() { reset(); }
  ~DefaultOptions() { reset(); }
  DefaultOptions(const DefaultOptions&) = delete;
  DefaultOptions& operator=(const DefaultOptions&) = delete;

 private:
  static void reset() {
#define LOFT_RESET(kind, name, value, choices, help) options.name.store(value);
    LOFT_OPTIONS(LOFT_RESET)
#undef LOFT_RESET
  }
};

// Runs something in a thread of its own, to its end. The thread is not young (runtime/youth.h).
inline void in_thread(const std::function<void()>& work) {
  std::thread thread([&] {
    youth::end();
    work();
  });
  thread.join();
}

// Whether work() returns true in the child of a fork.
template <class Work>
bool child_passes(Work work) {
  const pid_t child = fork();
  if (child == 0) _exit(work() ? 0 : 1);
  int status = -1;
  return waitpid(child, &status, 0) == child && status == 0;
}

inline Slab* slab_of(const void* p) { return slab::at(pagemap.of(p)); }

// Of an object that lies in a slab.
inline unsigned index_of(const void* p) {
  const Slab* slab = slab_of(p);
  return static_cast<unsigned>((reinterpret_cast<uintptr_t>(p) - slab->base) / slab->shape().size);
}

// As it was before a key.
inline uint64_t link_of(const Message* message) { return meant(message, message->link.load()); }

// nullptr without memory.
inline Slab* new_slab(SizeClass size_class, HeapId owner) {
  Slab* slab = nullptr;
  return slab::create_all(size_class, owner, &slab, 1, 0) != 0 ? slab : nullptr;
}

inline void* address(uintptr_t at) { return reinterpret_cast<void*>(at); }
inline uintptr_t number(const void* p) { return reinterpret_cast<uintptr_t>(p); }

// Eight bytes at a time; `bytes` is a multiple of eight and `p` aligned to eight.
inline bool reads_zero(const void* p, size_t bytes) {
  const auto* words = static_cast<const uint64_t*>(p);
  uint64_t seen = 0;
  for (size_t i = 0; i < bytes / 8; ++i) seen |= words[i];
  return seen == 0;
}

// As malloc and calloc do for a large object.
inline void* allocate_large(size_t size, size_t alignment, bool zeroed) {
  bool zero = false;
  void* p = large::allocate(size, alignment, &zero);
  if (p != nullptr && zeroed && !zero) large::clear(p, round_up(size, os::page_size()));
  return p;
}

}  // namespace loft::test
