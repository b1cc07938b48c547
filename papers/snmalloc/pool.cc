#include "snmalloc/pool.h"

#include <new>

#include "base/atomic.h"
#include "engine/spin_lock.h"
#include "os/os.h"
#include "space/metadata.h"
#include "space/span.h"

namespace snmalloc {

LOFT_HIDDEN __thread Allocator* mine = nullptr;

namespace {

// The hook has run.
__thread bool ended LOFT_TLS = false;

constinit engine::SpinLock pool_lock;
constinit Allocator* pooled = nullptr;
// For allocators, one behind the other: 1024 of them, so that the ten lowest bits in which their
// addresses may differ do differ (2.2). Pages are the system's until an allocator lies there.
constexpr size_t kBytesOfPlaces = size_t{1} << 21;
constinit uintptr_t places = 0;
constinit uintptr_t places_end = 0;
constinit bool prepared = false;

// Written under the lock. Release and acquire: who sums the counts sees each allocator constructed.
constinit loft::Atomic<Allocator*> all{nullptr};

void give_back(Allocator* allocator) {
  allocator->rest();
  const engine::SpinGuard guard(pool_lock);
  allocator->next_in_pool = pooled;
  pooled = allocator;
}

void on_exit(void* value) {
  mine = nullptr;
  ended = true;
  give_back(static_cast<Allocator*>(value));
}

// loft's runtime is in the library, too, and sets its own hook as it is loaded (101). Where
// anything has allocated before, that one would run for what prepare() left it: so here once more.
__attribute__((constructor(103))) void set_hook() { loft::os::on_thread_exit(on_exit); }

// Under the lock.
void prepare() {
  if (prepared) return;
  read_parameters();
  // Without a key the hook never runs, and the allocators of ended threads are lost.
  loft::os::on_thread_exit(on_exit);
  prepared = true;
}

Allocator* make() {
  if (!loft::span::initialise()) return nullptr;
  if (places == places_end) {
    const loft::span::Range range =
        loft::span::acquire(kBytesOfPlaces >> loft::kGranuleLog, kBytesOfPlaces);
    if (range.base == 0) return nullptr;
    places = range.base;
    places_end = places + kBytesOfPlaces;
  }
  void* const buckets = loft::metadata::allocate(Outgoing::bytes_of_buckets());
  void* const batches =
      buckets == nullptr ? nullptr : loft::metadata::allocate(BatchCache::bytes_of_places());
  if (batches == nullptr) return nullptr;
  RemoteQueue* queues = nullptr;
  if (parameters.by_class) {
    queues = static_cast<RemoteQueue*>(loft::metadata::allocate(kQueues * sizeof(RemoteQueue)));
    if (queues == nullptr) return nullptr;
    for (unsigned i = 0; i < kQueues; ++i) new (queues + i) RemoteQueue;
  }
  auto* const allocator = new (reinterpret_cast<void*>(places))
      Allocator(static_cast<Outgoing::Bucket*>(buckets), static_cast<Batch*>(batches), queues);
  places += sizeof(Allocator);
  allocator->next_of_all = all.load(loft::memory_order_relaxed);
  all.store(allocator, loft::memory_order_release);
  return allocator;
}

Allocator* take() {
  const engine::SpinGuard guard(pool_lock);
  prepare();
  Allocator* const allocator = pooled;
  if (allocator == nullptr) return make();
  pooled = allocator->next_in_pool;
  return allocator;
}

}  // namespace

Loan::Loan() : allocator_(take()) {
  if (ended || allocator_ == nullptr) return;
  // First, because the next call may allocate.
  mine = allocator_;
  loft::os::set_thread_exit_value(allocator_);
}

Loan::~Loan() {
  if (ended && allocator_ != nullptr) give_back(allocator_);
}

void prepare_fork() { pool_lock.lock(); }

void finish_fork(bool child) {
  if (!child) return pool_lock.unlock();
  pool_lock.reset();
  const auto mend = [](RemoteQueue& queue) { queue.mend(); };
  if (mine != nullptr) mine->for_each_queue(mend);
  for (Allocator* allocator = pooled; allocator != nullptr; allocator = allocator->next_in_pool) {
    allocator->for_each_queue(mend);
  }
}

engine::Counts sum_of_counts() {
  engine::Counts sum;
  sum.locks = pool_lock.acquired();
  sum.lock_waits = pool_lock.waits();
  const Allocator* allocator = all.load(loft::memory_order_acquire);
  for (; allocator != nullptr; allocator = allocator->next_of_all) {
    const Tally& tally = allocator->tally();
    sum.frees_remote += tally.frees_remote.get();
    sum.messages += tally.sent.messages.get();
    sum.exchanges += tally.sent.exchanges.get();
    sum.swaps += tally.swaps.succeeded.get();
    sum.swap_retries += tally.swaps.failed.get();
    sum.received += tally.received.get();
    sum.forwarded += tally.forwarded.get();
    sum.batches += tally.batches.get();
    sum.batch_objects += tally.batch_objects.get();
    sum.evictions += tally.evictions.get();
    tally.looks.add_to(sum);
  }
  return sum;
}

}  // namespace snmalloc
