// Runs into the limit on its address space in every way that a program can, and goes on each time.
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "exhaustion: %s (errno %d)\n", what, errno);
  _exit(1);
}

size_t room = 0;

// A limit that is there from the start, so that it covers all that the allocator will ever hold.
void read_limit() {
  rlimit limit = {};
  require(getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur <= (1 << 30),
          "needs a limit of 1 GiB at the most");
  room = limit.rlim_cur;
}

struct Link {
  Link* next;
  size_t size;
};

// Takes objects until there are no more, and frees them all.
size_t exhaust(size_t size, void* (*take)(size_t)) {
  Link* all = nullptr;
  size_t count = 0;
  for (;;) {
    errno = 0;
    auto* link = static_cast<Link*>(take(size));
    if (link == nullptr) break;
    memset(static_cast<void*>(link), 0x5a, size < 4096 ? size : 4096);
    *link = {all, size};
    all = link;
    count++;
  }
  require(errno == ENOMEM, "errno is not ENOMEM");
  while (all != nullptr) {
    Link* next = all->next;
    require(all->size == size, "an object was written to by somebody else");
    free(all);
    all = next;
  }
  return count;
}

void* by_malloc(size_t size) { return malloc(size); }
void* by_calloc(size_t size) { return calloc(1, size); }
void* by_aligned(size_t size) { return aligned_alloc(4096, (size + 4095) & ~size_t{4095}); }
void* by_posix(size_t size) {
  void* object = nullptr;
  const int error = posix_memalign(&object, 256, size);
  errno = error;
  return error == 0 ? object : nullptr;
}
void* by_new(size_t size) {
  void* object = operator new(size, std::nothrow);
  if (object == nullptr) errno = ENOMEM;
  return object;
}

void realloc_keeps() {
  size_t size = 1000;
  auto* object = static_cast<unsigned char*>(malloc(size));
  require(object != nullptr, "nothing to start from");
  memset(object, 7, size);
  for (;;) {
    errno = 0;
    auto* larger = static_cast<unsigned char*>(realloc(object, size * 2));
    if (larger == nullptr) break;
    memset(larger + size, 7, size);
    object = larger;
    size *= 2;
  }
  require(errno == ENOMEM, "realloc: errno is not ENOMEM");
  require(size >= (8 << 20), "realloc gave up early");
  for (size_t i = 0; i < size; i++) require(object[i] == 7, "realloc lost the object");
  free(object);
}

void new_throws() {
  std::vector<std::vector<char>*> parts;
  bool thrown = false;
  parts.reserve(1000);
  try {
    for (;;) parts.push_back(new std::vector<char>(1 << 20, 'x'));
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  require(thrown, "new did not throw");
  if (parts.size() < (room >> 24)) {
    fprintf(stderr, "exhaustion: new threw after %zu MiB\n", parts.size());
    _exit(1);
  }
  for (auto* part : parts) delete part;
}

void* reserve = nullptr;
int handler_calls = 0;
void give_reserve() {
  handler_calls++;
  if (reserve == nullptr) throw std::bad_alloc();
  free(reserve);
  reserve = nullptr;
}

void handler_is_asked() {
  reserve = malloc(8 << 20);
  require(reserve != nullptr, "no reserve");
  std::set_new_handler(give_reserve);
  std::vector<char*> parts;
  parts.reserve(1000);
  try {
    for (;;) parts.push_back(new char[1 << 20]);
  } catch (const std::bad_alloc&) {
  }
  std::set_new_handler(nullptr);
  require(handler_calls == 2, "the new_handler was not asked twice");
  for (char* part : parts) delete[] part;
}

// Threads that were there before memory ran out take it all at the same time.
constexpr unsigned kThreads = 4;
pthread_t threads[kThreads];
size_t counts[kThreads];
pthread_barrier_t begin;

void* thread(void* count) {
  pthread_barrier_wait(&begin);
  *static_cast<size_t*>(count) = exhaust(5000, by_malloc);
  return nullptr;
}

void start_threads() {
  pthread_barrier_init(&begin, nullptr, kThreads + 1);
  for (unsigned i = 0; i < kThreads; i++) {
    require(pthread_create(&threads[i], nullptr, thread, &counts[i]) == 0, "pthread_create");
  }
}

void all_at_once() {
  pthread_barrier_wait(&begin);
  size_t sum = 0;
  for (unsigned i = 0; i < kThreads; i++) {
    pthread_join(threads[i], nullptr);
    sum += counts[i];
  }
  require(sum > 0, "threads got nothing");
}

void refuses_the_absurd() {
  for (const size_t size :
       {SIZE_MAX, SIZE_MAX - 100, SIZE_MAX / 2, size_t{1} << 46, size_t{1} << 40}) {
    errno = 0;
    volatile size_t hidden = size;
    require(malloc(hidden) == nullptr && errno == ENOMEM, "absurd malloc");
    errno = 0;
    require(calloc(hidden, 2) == nullptr && errno == ENOMEM, "absurd calloc");
  }
}

}  // namespace

int main() {
  read_limit();
  start_threads();
  const size_t sizes[] = {16, 100, 1024, 5000, 40000, 300000, 1 << 20, 20 << 20, 16};
  for (const size_t size : sizes) {
    for (auto* take : {by_malloc, by_calloc, by_aligned, by_posix, by_new}) {
      const size_t count = exhaust(size, take);
      // What was freed must serve any other size.
      const size_t least = take == by_aligned ? 4096 : take == by_posix ? 256 : 16;
      if (count * (size < least ? least : size) < room / 8) {
        fprintf(stderr, "exhaustion: no more than %zu objects of %zu bytes\n", count, size);
        return 1;
      }
    }
  }
  realloc_keeps();
  new_throws();
  handler_is_asked();
  all_at_once();
  refuses_the_absurd();
  char* last = strdup("goes on");
  require(last != nullptr, "nothing left at the end");
  puts(last);
  free(last);
}
