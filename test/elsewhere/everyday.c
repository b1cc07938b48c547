// everyday WHAT: what programs do with an allocator, with nothing but a C library.
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kSlots = 4096, kThreads = 4, kRounds = 100000 };
static unsigned char* slots[kSlots];

// Musl does not have it, loft does.
__attribute__((weak)) int malloc_trim(size_t);

static void fail(const char* what) {
  puts(what);
  exit(1);
}

static unsigned next(unsigned* state) { return (*state = *state * 1664525u + 1013904223u) >> 8; }

// An object knows whether somebody overwrote it: its first bytes say how long it is, its last one
// repeats a part of that.
static unsigned char* make(size_t size) {
  unsigned char* object = malloc(size);
  if (object == NULL) fail("no memory");
  memcpy(object, &size, sizeof(size));
  object[size - 1] = (unsigned char)(size >> 3);
  return object;
}

static void drop(unsigned char* object) {
  if (object == NULL) return;
  size_t size;
  memcpy(&size, object, sizeof(size));
  if (size < 16 || size > 4096 || object[size - 1] != (unsigned char)(size >> 3))
    fail("overwritten");
  free(object);
}

static void* replace_objects(void* seed) {
  unsigned state = (unsigned)(uintptr_t)seed;
  for (int i = 0; i < kRounds; ++i) {
    const size_t size = 16 + next(&state) % 2000;
    unsigned char* fresh = make(size);
    drop(__atomic_exchange_n(&slots[next(&state) % kSlots], fresh, __ATOMIC_ACQ_REL));
  }
  return NULL;
}

// Threads that end, and whose objects others free.
static void exchange(void) {
  for (int round = 0; round < 3; ++round) {
    pthread_t threads[kThreads];
    for (uintptr_t i = 0; i < kThreads; ++i) {
      if (pthread_create(&threads[i], NULL, replace_objects, (void*)(i + 1)) != 0)
        fail("no thread");
    }
    for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  }
  for (int i = 0; i < kSlots; ++i) drop(slots[i]);
}

static void* replace_until_told(void* told) {
  while (!__atomic_load_n((int*)told, __ATOMIC_ACQUIRE)) replace_objects((void*)7);
  return NULL;
}

// A child takes over a heap that was in use.
static void fork_in_use(void) {
  static int told = 0;
  pthread_t thread;
  if (pthread_create(&thread, NULL, replace_until_told, &told) != 0) fail("no thread");
  for (int i = 0; i < 10; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      unsigned char* objects[1000];
      for (int n = 0; n < 1000; ++n) objects[n] = make(16 + (size_t)n);
      for (int n = 0; n < 1000; ++n) drop(objects[n]);
      _exit(0);
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) fail("the child");
  }
  __atomic_store_n(&told, 1, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
}

static void corners(void) {
  for (size_t alignment = sizeof(void*); alignment <= 1 << 20; alignment *= 2) {
    void* aligned = NULL;
    if (posix_memalign(&aligned, alignment, 100) != 0) fail("posix_memalign");
    if ((uintptr_t)aligned % alignment != 0) fail("not aligned");
    free(aligned);
  }
  volatile size_t most = SIZE_MAX / 2;
  if (malloc(most) != NULL || errno != ENOMEM) fail("more than there is");
  for (size_t size = 1; size < 1 << 20; size = size * 5 / 3 + 1) {
    unsigned char* zeros = calloc(1, size);
    for (size_t i = 0; i < size; ++i) {
      if (zeros[i] != 0) fail("calloc");
    }
    memset(zeros, 1, size);
    zeros = realloc(zeros, 3 * size);
    for (size_t i = 0; i < size; ++i) {
      if (zeros[i] != 1) fail("realloc");
    }
    free(zeros);
  }
}

static long resident_pages(void) {
  long all;
  long resident;
  FILE* statm = fopen("/proc/self/statm", "r");
  if (statm == NULL || fscanf(statm, "%ld %ld", &all, &resident) != 2) fail("statm");
  fclose(statm);
  return resident;
}

// What was freed goes back while the program sleeps.
static void home(void) {
  enum { kObjects = 100000 };
  static unsigned char* objects[kObjects];
  for (int i = 0; i < kObjects; ++i) objects[i] = memset(malloc(640), 1, 640);
  const long before = resident_pages();
  for (int i = 0; i < kObjects; ++i) free(objects[i]);
  const long wanted = before - 50 * 1024 * 1024 / sysconf(_SC_PAGESIZE);
  for (int i = 0; i < 100 && resident_pages() > wanted; ++i) usleep(100000);
  if (resident_pages() > wanted) fail("it has not gone back");
}

// Holes of many lengths are given back, and read as zero where they are allocated again.
static void holes(void) {
  enum { kObjects = 4000, kLength = 8192 };
  static unsigned char* objects[kObjects];
  for (int i = 0; i < kObjects; ++i) objects[i] = memset(malloc(kLength), 1, kLength);
  unsigned state = 1;
  for (int i = 0; i < kObjects; ++i) {
    if (next(&state) % 3 == 0) continue;
    free(objects[i]);
    objects[i] = NULL;
  }
  if (malloc_trim == NULL) fail("no malloc_trim");
  malloc_trim(0);
  for (int i = 0; i < kObjects; ++i) {
    if (objects[i] != NULL) continue;
    objects[i] = calloc(1, kLength);
    for (int at = 0; at < kLength; ++at) {
      if (objects[i][at] != 0) fail("calloc");
    }
  }
  for (int i = 0; i < kObjects; ++i) free(objects[i]);
}

static void free_twice(void) {
  void* volatile object = malloc(100);
  free(object);
  free(object);
}

int main(int argc, char** argv) {
  const char* what = argc == 2 ? argv[1] : "";
  static const struct {
    const char* name;
    void (*run)(void);
  } all[] = {{"exchange", exchange}, {"fork", fork_in_use}, {"corners", corners},
             {"home", home},         {"holes", holes},      {"double-free", free_twice}};
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); ++i) {
    if (strcmp(what, all[i].name) != 0) continue;
    all[i].run();
    puts("ok");
    return 0;
  }
  return 2;
}
