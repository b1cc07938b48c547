// The records of threads' variables under macOS. A key of POSIX leads to a thread's own: such keys
// need no memory there, and reading one takes a few instructions.
//
// All records are in one list, which only grows. A thread takes the first that nobody has, without
// a lock: the child of a fork would find it held. Records of threads that a child does not have
// stay taken.
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/keep_errno.h"
#include "base/per_thread.h"

namespace loft {

namespace {

struct alignas(128) ThreadRecord {
  void* words[kThreadWords];
  ThreadRecord* older;
  unsigned rounds;     // of the thread's destructors that have run
  Atomic<bool> taken;  // acquire and release: who takes it finds it zeroed
};

// Of threads that no memory is left for. What they write there, none of them counts on.
constinit ThreadRecord spare{};

constinit Atomic<ThreadRecord*> newest_record{nullptr};  // release and acquire, as for `taken`
constinit Atomic<ThreadRecord*> given_back{nullptr};     // relaxed: where to look first
constinit Atomic<unsigned long> key_and_one{0};          // relaxed: a number by itself; 0: none yet

// Other destructors may call malloc in later rounds than this one: the record stays until the last.
void give_record_back(void* value) {
  auto* const record = static_cast<ThreadRecord*>(value);
  const auto key = static_cast<pthread_key_t>(key_and_one.load(memory_order_relaxed) - 1);
  if (++record->rounds < PTHREAD_DESTRUCTOR_ITERATIONS) {
    pthread_setspecific(key, record);
    return;
  }
  for (void*& word : record->words) word = nullptr;
  record->rounds = 0;
  record->taken.store(false, memory_order_release);
  given_back.store(record, memory_order_relaxed);
}

// 0: none is to be had.
unsigned long key_of_records() {
  const unsigned long known = key_and_one.load(memory_order_relaxed);
  if (LOFT_LIKELY(known != 0)) return known;
  pthread_key_t key;
  if (pthread_key_create(&key, give_record_back) != 0) return 0;
  unsigned long none = 0;
  if (key_and_one.compare_exchange_strong(none, key + 1, memory_order_relaxed)) return key + 1;
  pthread_key_delete(key);  // another thread was first
  return none;
}

bool take(ThreadRecord* record) {
  return !record->taken.load(memory_order_relaxed) &&
         !record->taken.exchange(true, memory_order_acquire);
}

ThreadRecord* find_record() {
  ThreadRecord* const hint = given_back.load(memory_order_relaxed);
  if (hint != nullptr && take(hint)) return hint;
  ThreadRecord* record = newest_record.load(memory_order_acquire);
  for (; record != nullptr; record = record->older) {
    if (take(record)) return record;
  }
  return nullptr;
}

// As many as fill a page.
ThreadRecord* make_records() {
  const auto bytes = static_cast<size_t>(getpagesize());
  void* const page = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
  if (page == MAP_FAILED) return &spare;
  auto* const records = static_cast<ThreadRecord*>(page);
  records[0].taken.store(true, memory_order_relaxed);
  const size_t last = bytes / sizeof(ThreadRecord) - 1;
  for (size_t i = 1; i <= last; ++i) records[i].older = &records[i - 1];
  ThreadRecord* before = newest_record.load(memory_order_relaxed);
  do {
    records[0].older = before;
  } while (!newest_record.compare_exchange_weak(before, &records[last], memory_order_release,
                                                memory_order_relaxed));
  return &records[0];
}

LOFT_COLD void** make_words(unsigned long key) {
  const KeepErrno keep;
  if (key == 0) return spare.words;
  ThreadRecord* record = find_record();
  if (record == nullptr) record = make_records();
  if (record != &spare) pthread_setspecific(static_cast<pthread_key_t>(key - 1), record);
  return record->words;
}

}  // namespace

void** thread_words() {
  const unsigned long key = key_of_records();
  auto* const record =
      key == 0
          ? nullptr
          : static_cast<ThreadRecord*>(pthread_getspecific(static_cast<pthread_key_t>(key - 1)));
  return LOFT_LIKELY(record != nullptr) ? record->words : make_words(key);
}

}  // namespace loft
