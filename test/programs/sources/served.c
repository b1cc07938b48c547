// served THREADS: threads that allocate, and free what other threads have allocated, until a file
// `end` lies in the folder. Each object's bytes are checked before it is freed.
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kSlots = 4096, kMostThreads = 16, kTurns = 1000 };

struct object {
  size_t size;
  unsigned char bytes[];
};

static _Atomic(struct object*) slots[kSlots];
static atomic_bool ended;
static atomic_ulong exchanged;

static void fail(const char* what) {
  fprintf(stderr, "%s\n", what);
  _exit(1);
}

static struct object* make(uint64_t random) {
  const size_t size = random % 100 == 0 ? random % 100000 : random % 3000;
  struct object* object = malloc(sizeof *object + size);
  if (object == NULL) fail("no memory");
  object->size = size;
  memset(object->bytes, (int)(size & 255), size);
  return object;
}

static void check_and_free(struct object* object) {
  if (object == NULL) return;
  for (size_t i = 0; i < object->size; ++i) {
    if (object->bytes[i] != (object->size & 255)) fail("an object has other bytes");
  }
  free(object);
}

static void* work(void* seed) {
  uint64_t random = (uintptr_t)seed * 0x9E3779B97F4A7C15u + 1;
  while (!atomic_load(&ended)) {
    for (int i = 0; i < kTurns; ++i) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      check_and_free(atomic_exchange(&slots[random >> 40 & (kSlots - 1)], make(random >> 33)));
    }
    atomic_fetch_add(&exchanged, kTurns);
  }
  return NULL;
}

int main(int argc, char** argv) {
  const int count = argc > 1 ? atoi(argv[1]) : 3;
  pthread_t threads[kMostThreads];
  if (count > kMostThreads) fail("too many threads");
  for (int i = 0; i < count; ++i) {
    if (pthread_create(&threads[i], NULL, work, (void*)(uintptr_t)i) != 0) fail("no thread");
  }
  puts("ready");
  fflush(stdout);
  while (access("end", F_OK) != 0) usleep(10000);
  atomic_store(&ended, 1);
  for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < kSlots; ++i) check_and_free(atomic_load(&slots[i]));
  puts(atomic_load(&exchanged) != 0 ? "whole" : "idle");
  return 0;
}
