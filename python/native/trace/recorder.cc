// See recorder.h. What is slow here runs with all signals blocked, and leaves errno as it was.
#include "recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pipe.h"

namespace recorder {

using trace::Base;
using trace::ChunkHeader;
using trace::Event;
using trace::kChunkBytes;

const int* begun;
bool recording;
thread_local Thread* own __attribute__((tls_model("initial-exec")));
uint64_t tickets;

namespace {

// The thread that has ended as far as its destructors go, if it still calls.
thread_local Thread* past __attribute__((tls_model("initial-exec")));

// Of an image: all that a forked child begins anew.
struct Process {
  uint64_t image;
  uint32_t pid;
  uint32_t threads;
  Thread* all;
  // Those whose chunk another may have.
  Thread* ended;
  // Chunks that nobody has had yet.
  uint8_t* fresh;
  uint32_t fresh_chunks;
  off_t file_bytes;
};
Process process;

int lock;
// Where the threads' descriptions come from.
uint8_t* pool;
size_t pool_left;
pthread_key_t at_end;
bool have_key;
int* begun_page;

char folder[3000];

// Of destructors at a thread's end: the system makes four.
constexpr int kRounds = 3;
constexpr size_t kPool = 64 << 10;
// A process of one thread takes one; then as many more at a time.
constexpr uint32_t kMoreChunks = 16;

// All signals blocked, errno kept, and nobody else here.
class Alone {
 public:
  Alone() : error_(errno) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
    // Acquire and release: what the lock guards is seen by the next one to hold it.
    while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE) != 0) sched_yield();
  }
  ~Alone() {
    __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error_;
  }
  Alone(const Alone&) = delete;
  Alone& operator=(const Alone&) = delete;

 private:
  sigset_t before_;
  int error_;
};

// From here on the process runs as if it were not recorded.
void stop(const char* why) {
  if (why != nullptr && recording) {
    char line[256];
    const int length =
        snprintf(line, sizeof(line), "loft record: %s; process %d is recorded no further\n", why,
                 static_cast<int>(getpid()));
    if (length > 0) (void)!::write(STDERR_FILENO, line, static_cast<size_t>(length));
  }
  recording = false;
}

void* map(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

void send(const void* bytes, size_t length) {
  if (const pipe::Sent sent = pipe::send(bytes, length); !sent.whole) stop(sent.why);
}

size_t read_file(const char* path, void* into, size_t most) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t length = read(file, into, most);
  close(file);
  return length < 0 ? 0 : static_cast<size_t>(length);
}

void introduce(const trace::ProcessHeader& more) {
  uint8_t chunk[kChunkBytes];
  ChunkHeader header = {};
  header.magic = trace::kProcessChunk;
  header.image = process.image;
  header.pid = process.pid;
  header.ticks = ticks();
  const size_t told = sizeof(header) + sizeof(more);
  const size_t words = read_file("/proc/self/cmdline", chunk + told, sizeof(chunk) - told);
  header.bytes = static_cast<uint32_t>(told + words);
  memcpy(chunk, &header, sizeof(header));
  memcpy(chunk + sizeof(header), &more, sizeof(more));
  send(chunk, header.bytes);
}

// More chunks, at the end of the process's file.
bool grow() {
  char path[sizeof(folder) + 32];
  snprintf(path, sizeof(path), "%s/%016llx", folder,
           static_cast<unsigned long long>(process.image));
  const uint32_t chunks = process.file_bytes == 0 ? 1 : kMoreChunks;
  const size_t bytes = chunks * kChunkBytes;
  const int file = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return false;
  // Allocated now: where there is no room, a write through the mapping would end the program.
  void* p = MAP_FAILED;
  if (posix_fallocate(file, process.file_bytes, static_cast<off_t>(bytes)) == 0) {
    p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, process.file_bytes);
  }
  close(file);
  if (p == MAP_FAILED) return false;
  process.file_bytes += static_cast<off_t>(bytes);
  process.fresh = static_cast<uint8_t*>(p);
  process.fresh_chunks = chunks;
  return true;
}

// Empties the chunk. At every moment what it holds up to `bytes` is whole, in case the process ends
// here.
void renew(Thread* thread) {
  ChunkHeader* chunk = thread->chunk;
  __atomic_store_n(&chunk->bytes, 0, __ATOMIC_RELEASE);
  chunk->magic = trace::kCallsChunk;
  chunk->image = process.image;
  chunk->pid = process.pid;
  chunk->thread = thread->number;
  chunk->serial = thread->serial;
  chunk->lost = 0;
  chunk->ticket = thread->base.ticket;
  chunk->ticks = thread->base.ticks;
  thread->base.address = 0;
  __atomic_store_n(&chunk->bytes, sizeof(ChunkHeader), __ATOMIC_RELEASE);
}

// For a thread that calls after its end: it must not stay among those whose chunks are given to
// others. False if its chunk has been.
bool take_back(Thread* thread) {
  for (Thread** link = &process.ended; *link != nullptr; link = &(*link)->next_ended) {
    if (*link != thread) continue;
    *link = thread->next_ended;
    renew(thread);
    return true;
  }
  return false;
}

bool give_chunk(Thread* thread) {
  if (Thread* other = process.ended; other != nullptr) {
    process.ended = other->next_ended;
    thread->chunk = other->chunk;
    other->chunk = nullptr;
  } else {
    if (process.fresh_chunks == 0 && !grow()) return false;
    thread->chunk = reinterpret_cast<ChunkHeader*>(process.fresh);
    process.fresh += kChunkBytes;
    process.fresh_chunks--;
  }
  renew(thread);
  return true;
}

Thread* describe() {
  if (pool_left < sizeof(Thread)) {
    pool = static_cast<uint8_t*>(map(kPool));
    if (pool == nullptr) return nullptr;
    pool_left = kPool;
  }
  auto* thread = reinterpret_cast<Thread*>(pool);
  pool += sizeof(Thread);
  pool_left -= sizeof(Thread);
  thread->number = process.threads++;
  thread->base.ticks = ticks();
  thread->rounds = kRounds;
  thread->next = process.all;
  // Release: find() reads the list without the lock.
  __atomic_store_n(&process.all, thread, __ATOMIC_RELEASE);
  return thread;
}

void flush(Thread* thread) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  const int error = errno;
  pthread_sigmask(SIG_BLOCK, &all, &before);
  // Nobody but this thread uses its chunk; the pipe takes it as a whole.
  if (thread->chunk->bytes > sizeof(ChunkHeader)) {
    if (recording) send(thread->chunk, thread->chunk->bytes);
    thread->serial++;
  }
  renew(thread);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
}

void append(Thread* thread, const Event& event) {
  if (thread->chunk->bytes + trace::kLongestCall > kChunkBytes) flush(thread);
  auto* bytes = reinterpret_cast<uint8_t*>(thread->chunk);
  const uint8_t* end = trace::write(bytes + thread->chunk->bytes, event, thread->base);
  __atomic_store_n(&thread->chunk->bytes, static_cast<uint32_t>(end - bytes), __ATOMIC_RELEASE);
}

// Called again and again at a thread's end, until no other destructor can come after it.
void on_end(void* p) {
  auto* thread = static_cast<Thread*>(p);
  if (thread != own) return;  // a child of fork has inherited it
  if (thread->rounds-- > 0) {
    thread->inside = true;
    pthread_setspecific(at_end, thread);
    thread->inside = false;
    return;
  }
  Event event = {};
  event.call = trace::kEnd;
  event.ticket = ticket();
  event.ticks = ticks();
  note(thread, event);
  flush(thread);
  const Alone alone;
  past = thread;
  own = nullptr;
  thread->next_ended = process.ended;
  process.ended = thread;
}

void watch_end(Thread* thread) {
  // With the first 32 keys this allocates nothing; what it allocates with others is not noted.
  thread->inside = true;
  if (have_key && past == nullptr) pthread_setspecific(at_end, thread);
  thread->waiting_from = thread->waiting_to;
  thread->inside = false;
}

uint64_t new_image() {
  timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  const uint64_t nanoseconds =
      static_cast<uint64_t>(time.tv_sec) * 1000000000 + static_cast<uint64_t>(time.tv_nsec);
  return nanoseconds << 20 ^ process.pid;
}

// A process that never calls is recorded, too.
__attribute__((constructor)) void begin_at_start() { (void)here(); }

}  // namespace

void begin() {
  // The parent's other threads do not exist here, and what they held is held no more.
  const bool forked = begun != nullptr;
  if (forked) lock = 0;
  const Alone alone;
  if (begun != nullptr && *begun != 0) return;
  trace::ProcessHeader origin = {};
  if (forked) {
    const Thread* forker = own != nullptr ? own : past;
    origin = {process.image, tickets, forker != nullptr ? forker->number : UINT32_MAX};
  }
  if (!forked) {
    const char* given = secure_getenv("LOFT_RECORD_FOLDER");
    if (given != nullptr && strlen(given) < sizeof(folder)) {
      memcpy(folder, given, strlen(given) + 1);
      recording = pipe::open(folder);
    }
    begun_page = static_cast<int*>(map(4096));
    if (begun_page != nullptr && madvise(begun_page, 4096, MADV_WIPEONFORK) != 0) {
      stop("the system cannot tell a child of fork from its parent (Linux 4.14 can)");
    }
    static int nowhere;
    if (begun_page == nullptr) begun_page = &nowhere;
    have_key = recording && pthread_key_create(&at_end, on_end) == 0;
  }
  own = past = nullptr;
  process = {};
  process.pid = static_cast<uint32_t>(getpid());
  process.image = new_image();
  tickets = 0;
  if (recording) introduce(origin);
  *begun_page = 1;
  // Release: who sees it sees all of the above.
  __atomic_store_n(&begun, begun_page, __ATOMIC_RELEASE);
}

Thread* attach() {
  Thread* thread = nullptr;
  {
    const Alone alone;
    thread = past != nullptr ? past : describe();
    if (thread == nullptr || !(take_back(thread) || give_chunk(thread))) {
      stop("there is no room for a buffer");
      return nullptr;
    }
    started(thread, pthread_self());
    own = thread;
  }
  watch_end(thread);
  return thread;
}

void note(Thread* thread, const Event& event) {
  // The compiler keeps the order here by these fences; a signal handler is on the same thread.
  if (thread->inside) {
    if (thread->waiting_to - thread->waiting_from == kWaiting) {
      thread->chunk->lost++;
      return;
    }
    thread->waiting[thread->waiting_to % kWaiting] = event;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    thread->waiting_to++;
    return;
  }
  thread->inside = true;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  append(thread, event);
  while (thread->waiting_from != *const_cast<volatile uint32_t*>(&thread->waiting_to)) {
    append(thread, thread->waiting[thread->waiting_from % kWaiting]);
    thread->waiting_from++;
  }
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  thread->inside = false;
}

Thread* expect(void* (*body)(void*), void* argument) {
  const Alone alone;
  Thread* thread = describe();
  if (thread != nullptr) {
    thread->body = body;
    thread->argument = argument;
  }
  return thread;
}

void start(Thread* thread) {
  // In a child of fork this is not reached: threads are started in the process that expects them.
  past = nullptr;
  {
    const Alone alone;
    if (!give_chunk(thread)) {
      stop("there is no room for a buffer");
      return;
    }
    started(thread, pthread_self());
    own = thread;
  }
  watch_end(thread);
}

void started(Thread* thread, pthread_t handle) {
  __atomic_store_n(&thread->handle, handle, __ATOMIC_RELAXED);
  // Release: with it comes the handle.
  __atomic_store_n(&thread->known, true, __ATOMIC_RELEASE);
}

Thread* find(pthread_t handle) {
  for (Thread* each = __atomic_load_n(&process.all, __ATOMIC_ACQUIRE); each != nullptr;
       each = each->next) {
    if (__atomic_load_n(&each->known, __ATOMIC_ACQUIRE) && !each->joined &&
        pthread_equal(__atomic_load_n(&each->handle, __ATOMIC_RELAXED), handle) != 0) {
      return each;
    }
  }
  return nullptr;
}

}  // namespace recorder
