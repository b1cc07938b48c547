// misuse WHAT [PROCESSORS]: hands the allocator an address that it must not take. The address is
// printed first; reaching the end, with the allocator still content, prints "survived". A mistake
// may show only when caches are emptied, so this is done. PROCESSORS, a digit each: where the first
// thread runs, and those that it starts, the last one for all others.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const char* processors = "";

static void run_on_next_processor(void) {
  if (*processors == 0) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(*processors - '0', &one);
  if (sched_setaffinity(0, sizeof(one), &one) != 0) abort();
  if (processors[1] != 0) processors++;
}

static void* volatile kept;

static char in_data[4096] __attribute__((aligned(64))) = {1};

static void* mistaken(void* address) {
  printf("%p\n", address);
  fflush(stdout);
  return address;
}

// Frees enough of every size used here to push older frees out of a thread's cache.
static void* churn(void* unused) {
  enum { kCount = 20000 };
  static void* objects[kCount];
  const size_t sizes[] = {16, 64, 256, 1024, 6000};
  for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
    const int count = sizes[s] > 1024 ? kCount / 10 : kCount;
    for (int i = 0; i < count; i++) objects[i] = malloc(sizes[s]);
    for (int i = 0; i < count; i++) free(objects[i]);
  }
  return unused;
}

// As a program's own reporter of crashes would.
static void allocate_much(int signal) {
  (void)signal;
  for (size_t size = 16; size < 200000; size = size * 5 / 4) {
    char* object = malloc(size);
    if (object != NULL) *object = 1;
    free(object);
  }
  puts("handled");
  fflush(stdout);
}

static sigjmp_buf out;

static void jump_out(int signal) {
  (void)signal;
  siglongjmp(out, 1);
}

// Frees a misaligned pointer, and goes on.
static void get_over_a_mistake(char* object) {
  signal(SIGABRT, jump_out);
  if (sigsetjmp(out, 1) == 0) free(object + 3);
}

// Needs locks that other threads hold all the time.
static void* need_spans(void* rounds) {
  for (uintptr_t i = (uintptr_t)rounds; i != 0; i--) {
    void* objects[16];
    for (int n = 0; n < 16; n++) objects[n] = malloc(70000 + (size_t)n * 4096);
    for (int n = 0; n < 16; n++) free(objects[n]);
  }
  return NULL;
}

static void need_spans_beside_others(void) {
  void* const rounds = (void*)(uintptr_t)20000;
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, need_spans, rounds);
  need_spans(rounds);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
}

static void* free_it(void* object) {
  free(object);
  return NULL;
}

static void* free_its_own_twice(void* size) {
  void* const object = mistaken(malloc((size_t)(uintptr_t)size));
  free(object);
  free(object);
  return NULL;
}

struct work {
  void* (*run)(void*);
  void* argument;
};

static void* on_next_processor(void* work) {
  const struct work mine = *(struct work*)work;
  run_on_next_processor();
  return mine.run(mine.argument);
}

static void in_thread(void* (*run)(void*), void* argument) {
  struct work work = {run, argument};
  pthread_t thread;
  if (pthread_create(&thread, NULL, on_next_processor, &work) != 0) abort();
  pthread_join(thread, NULL);
}

static void* free_and_churn(void* object) {
  free(object);
  return churn(NULL);
}

// The thread has a cache by then, and sends what it frees: a young one puts it back itself.
static void* free_when_grown_up(void* object) {
  for (int i = 0; i < 1000; i++) {
    void* volatile one = malloc(64);
    free(one);
  }
  free(object);
  return NULL;
}

enum { kMany = 20000 };
static void* many[kMany];

static void* free_many(void* unused) {
  for (int i = 0; i < kMany; i++) free(many[i]);
  return unused;
}

static int compare(const void* a, const void* b) {
  const uintptr_t x = *(const uintptr_t*)a, y = *(const uintptr_t*)b;
  return x < y ? -1 : x > y;
}

// Another thread frees an object, which then carries the message that brings it home; a second one
// follows; and the first object is written to. What is freed after that has to come home still.
static void write_after_free(void* written) {
  for (int i = 0; i < kMany; i++) many[i] = malloc(64);
  uint64_t* const first = mistaken(malloc(64));
  void* const second = malloc(64);
  in_thread(free_when_grown_up, first);
  in_thread(free_when_grown_up, second);
  first[0] = (uint64_t)(uintptr_t)written;
  malloc_trim(0);
  in_thread(free_many, NULL);
  qsort(many, kMany, sizeof(many[0]), compare);
  int again = 0;
  for (int i = 0; i < kMany; i++) {
    void* object = malloc(64);
    again += bsearch(&object, many, kMany, sizeof(many[0]), compare) != NULL;
  }
  if (again < kMany / 2) printf("only %d of %d objects came home\n", again, kMany);
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  if (argc > 2) processors = argv[2];
  run_on_next_processor();
  char in_stack[256] __attribute__((aligned(64)));
  memset(in_stack, 1, sizeof(in_stack));
  char* small = malloc(64);
  char* large = malloc(3000000);
  memset(small, 1, 64);
  memset(large, 1, 3000000);
  // What a first thread needs is not to be put where `large` was.
  in_thread(free_it, NULL);

  if (strcmp(what, "interior") == 0) {
    free(mistaken(small + 16));
  } else if (strcmp(what, "misaligned") == 0) {
    free(mistaken(small + 3));
  } else if (strcmp(what, "interior-large") == 0) {
    free(mistaken(large + 65536));
  } else if (strcmp(what, "misaligned-large") == 0) {
    free(mistaken(large + 8));
  } else if (strcmp(what, "interior-other-thread") == 0) {
    in_thread(free_and_churn, mistaken(small + 32));
  } else if (strcmp(what, "realloc-interior") == 0) {
    free(realloc(mistaken(small + 16), 100000));
  } else if (strcmp(what, "realloc-interior-large") == 0) {
    free(realloc(mistaken(large + 65536), 4000000));
  } else if (strcmp(what, "usable-size-interior") == 0) {
    printf("%zu\n", malloc_usable_size(mistaken(small + 16)));
  } else if (strcmp(what, "stack") == 0) {
    free(mistaken(in_stack + 64));
  } else if (strcmp(what, "static") == 0) {
    free(mistaken(in_data + 64));
  } else if (strcmp(what, "code") == 0) {
    free(mistaken((void*)(uintptr_t)&main));
  } else if (strcmp(what, "mmap") == 0) {
    free(mistaken(mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)));
  } else if (strcmp(what, "realloc-mmap") == 0) {
    free(realloc(
        mistaken(mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
        10));
  } else if (strcmp(what, "nowhere") == 0) {
    free(mistaken((void*)(uintptr_t)0x1234560));
  } else if (strcmp(what, "not-canonical") == 0) {
    free(mistaken((void*)(uintptr_t)0x8877665544332210));
  } else if (strcmp(what, "never-allocated") == 0) {
    // The one object of its size so far; its neighbour in address order was handed to nobody.
    char* lonely = malloc(6000);
    free(mistaken(lonely + malloc_usable_size(lonely)));
  } else if (strcmp(what, "double") == 0) {
    mistaken(small);
    free(small);
    free(small);
  } else if (strcmp(what, "realloc-freed") == 0) {
    mistaken(small);
    free(small);
    free(realloc(small, 60));
  } else if (strcmp(what, "double-handled") == 0) {
    char* const other = malloc(64);
    signal(SIGABRT, allocate_much);
    mistaken(small);
    free(small);
    free(other);  // or it would be found before loft takes the lock
    free(small);
  } else if (strcmp(what, "misaligned-handled") == 0) {
    signal(SIGABRT, allocate_much);
    free(mistaken(small + 3));
  } else if (strcmp(what, "got-over") == 0) {
    get_over_a_mistake(small);
    need_spans_beside_others();
  } else if (strcmp(what, "second-mistake-handled") == 0) {
    get_over_a_mistake(small);
    signal(SIGABRT, allocate_much);
    in_thread(free_its_own_twice, (void*)64);
  } else if (strcmp(what, "second-mistake-of-a-child-handled") == 0) {
    get_over_a_mistake(small);
    signal(SIGABRT, allocate_much);
    const pid_t child = fork();
    if (child == 0) {
      in_thread(free_its_own_twice, (void*)64);
    }
    int status = 0;
    waitpid(child, &status, 0);
    signal(SIGABRT, SIG_DFL);
    if (WIFSIGNALED(status)) raise(WTERMSIG(status));
  } else if (strcmp(what, "double-other-thread") == 0) {
    mistaken(small);
    in_thread(free_it, small);
    free(small);
  } else if (strcmp(what, "double-two-threads") == 0 ||
             strcmp(what, "double-two-threads-kept") == 0) {
    // With another object in it, the slab stays, so that whoever notices can tell which object it
    // is.
    if (strstr(what, "kept") != NULL) kept = malloc(64);
    mistaken(small);
    in_thread(free_it, small);
    in_thread(free_and_churn, small);
  } else if (strcmp(what, "double-large") == 0) {
    mistaken(large);
    free(large);
    free(large);
  } else if (strcmp(what, "double-large-other-thread") == 0) {
    mistaken(large);
    in_thread(free_it, large);
    free(large);
  } else if (strcmp(what, "zero-after-free") == 0) {
    write_after_free(NULL);
  } else if (strcmp(what, "pointer-after-free") == 0) {
    write_after_free(small);
  } else if (strcmp(what, "number-after-free") == 0) {
    const double number = 1.0;
    void* written;
    memcpy(&written, &number, sizeof(written));
    write_after_free(written);
  } else if (strcmp(what, "nothing") == 0) {
    in_thread(free_it, small);
    free(large);
  } else {
    return 2;
  }
  churn(NULL);
  in_thread(churn, NULL);
  // The caches of a processor that no thread of this program passes by again.
  const char* owner = getenv("LOFT_OWNER");
  if (owner != NULL && strcmp(owner, "cpu") == 0) malloc_trim(0);
  puts("survived");
  return 0;
}
