// windows_everyday WHAT: what programs do with an allocator, with nothing but Windows and a C
// runtime. With LOFT_NAMES it calls loft's functions by their own names, else the runtime's.
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#if defined(LOFT_NAMES)
#include <loft/loft.h>
#define malloc loft_malloc
#define calloc loft_calloc
#define realloc loft_realloc
#define free loft_free
#define _msize loft_malloc_usable_size
#endif

enum { kSlots = 4096, kThreads = 4, kRounds = 100000 };
static unsigned char* slots[kSlots];

static void fail(const char* what) {
  printf("%s\n", what);
  fflush(stdout);
  _exit(1);
}

#include "objects.h"

static DWORD WINAPI replace_objects(void* seed) {
  unsigned state = (unsigned)(uintptr_t)seed;
  for (int i = 0; i < kRounds; ++i) {
    const size_t size = 16 + next(&state) % 2000;
    unsigned char* fresh = make(size);
    drop(InterlockedExchangePointer((void* volatile*)&slots[next(&state) % kSlots], fresh));
  }
  return 0;
}

// Threads that end, and whose objects others free.
static void exchange(void) {
  for (int round = 0; round < 3; ++round) {
    HANDLE threads[kThreads];
    for (uintptr_t i = 0; i < kThreads; ++i) {
      threads[i] = CreateThread(NULL, 0, replace_objects, (void*)(i + 1), 0, NULL);
      if (threads[i] == NULL) fail("no thread");
    }
    WaitForMultipleObjects(kThreads, threads, TRUE, INFINITE);
    for (int i = 0; i < kThreads; ++i) CloseHandle(threads[i]);
  }
  for (int i = 0; i < kSlots; ++i) drop(slots[i]);
}

static DWORD WINAPI use_and_end(void* unused) {
  (void)unused;
  void* kept[64];
  for (int i = 0; i < 64; ++i) kept[i] = make(16 + (size_t)i * 60);
  for (int i = 0; i < 64; ++i) free(kept[i]);
  return 0;
}

static size_t committed(void) {
  size_t sum = 0;
  MEMORY_BASIC_INFORMATION found;
  for (char* at = NULL; VirtualQuery(at, &found, sizeof(found)) != 0;
       at = (char*)found.BaseAddress + found.RegionSize) {
    if (found.State == MEM_COMMIT && found.Type == MEM_PRIVATE) sum += found.RegionSize;
  }
  return sum;
}

// A thousand threads, one after another, leave no more behind than a few.
static void threads(void) {
  size_t before = 0;
  for (int i = 0; i < 1000; ++i) {
    HANDLE thread = CreateThread(NULL, 0, use_and_end, NULL, 0, NULL);
    if (thread == NULL) fail("no thread");
    WaitForSingleObject(thread, INFINITE);
    CloseHandle(thread);
    if (i == 100) before = committed();
  }
  if (committed() > before + (size_t)(8 << 20)) fail("ended threads keep memory");
}

static int is_filled(const unsigned char* bytes, unsigned char with, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (bytes[i] != with) return 0;
  return 1;
}

static void corners(void) {
  SetLastError(4711);
  for (size_t size = 0; size < 300000; size = size * 5 / 4 + 1) {
    unsigned char* object = calloc(size, 1);
    if (object == NULL || (uintptr_t)object % 16 != 0) fail("alignment");
    if (!is_filled(object, 0, size)) fail("calloc does not clear");
    memset(object, 7, size);
    if (_msize(object) < size) fail("_msize is too little");
    object = realloc(object, size * 2 + 1);
    if (object == NULL || !is_filled(object, 7, size)) fail("realloc loses bytes");
    free(object);
  }
  unsigned char* large = malloc((size_t)64 << 20);
  if (large == NULL) fail("no large object");
  memset(large, 1, (size_t)64 << 20);
  large = realloc(large, (size_t)100 << 20);
  if (large == NULL || !is_filled(large, 1, (size_t)64 << 20)) fail("a large realloc loses bytes");
  free(large);
  if (GetLastError() != 4711) fail("the last error is another");
  errno = 0;
  volatile size_t most = SIZE_MAX / 2;
  if (malloc(most) != NULL || errno != ENOMEM) fail("more memory than there is");
  if (calloc(most, 4) != NULL) fail("a product that overflows");
  free(NULL);
}

// Much memory that is freed goes back to the system.
static void home(void) {
  enum { kMany = 20000 };
  static void* many[kMany];
  const size_t before = committed();
  for (int i = 0; i < kMany; ++i) {
    many[i] = malloc(8000);
    if (many[i] == NULL) fail("no memory");
    memset(many[i], 1, 8000);
  }
  const size_t full = committed();
  for (int i = 0; i < kMany; ++i) free(many[i]);
#if defined(LOFT_NAMES)
  loft_malloc_trim(0);
  if (committed() > before + (full - before) / 4) fail("memory stays");
#else
  (void)full;
  (void)before;
#endif
}

static void double_free(void) {
  void* volatile object = malloc(100);
  free(object);
  free(object);
}

#if !defined(LOFT_NAMES)
// The family of the runtime of Windows.
static void aligned(void) {
  for (size_t alignment = 1; alignment <= 4096; alignment *= 2) {
    for (size_t size = 1; size < 100000; size = size * 3 + 1) {
      unsigned char* object = _aligned_malloc(size, alignment);
      if (object == NULL || (uintptr_t)object % alignment != 0) fail("_aligned_malloc");
      memset(object, 3, size);
      object = _aligned_realloc(object, size * 2, alignment);
      if (object == NULL || (uintptr_t)object % alignment != 0 || !is_filled(object, 3, size))
        fail("_aligned_realloc");
      _aligned_free(object);
      object = _aligned_offset_malloc(size + 8, alignment, 8);
      if (object == NULL || ((uintptr_t)object + 8) % alignment != 0)
        fail("_aligned_offset_malloc");
      _aligned_free(object);
    }
  }
  _aligned_free(NULL);
}

// Objects that the runtime has made itself.
static void foreign(void) {
  char* copy = _strdup("twelve bytes");
  if (copy == NULL || strcmp(copy, "twelve bytes") != 0) fail("_strdup");
  if (_msize(copy) < 13) fail("_msize of the runtime's object");
  copy = realloc(copy, 5000);
  if (copy == NULL || strcmp(copy, "twelve bytes") != 0) fail("realloc of the runtime's object");
  free(copy);
  char* path = _fullpath(NULL, "x", 0);
  if (path == NULL) fail("_fullpath");
  free(path);
  FILE* file = tmpfile();
  if (file != NULL) fclose(file);
}

static void expand(void) {
  char* object = malloc(100);
  if (_expand(object, 90) != object) fail("_expand to less");
  if (_expand(object, 1 << 20) != NULL) fail("_expand to more than there is");
  free(object);
  object = malloc(20 << 20);
  if (_expand(object, 5 << 20) != object) fail("_expand of a large object to less");
  free(object);
  if (_heapchk() != _HEAPOK) fail("_heapchk");
}

// What an object gives up it gets back as zeros.
static void check_zeros(unsigned char* object, unsigned char* (*again)(unsigned char*, size_t)) {
  if (object == NULL || !is_filled(object, 0, 100)) fail("recalloc does not clear");
  memset(object, 5, 100);
  object = again(object, 60);
  object = again(object, 100);
  if (object == NULL || !is_filled(object, 5, 60)) fail("recalloc loses bytes");
  if (!is_filled(object + 60, 0, 40)) fail("recalloc does not clear what comes back");
  object = again(object, 5000);
  if (object == NULL || !is_filled(object + 60, 0, 4940)) fail("recalloc does not clear all");
  if (again(object, 0) != NULL) fail("recalloc to nothing");
}

static void* (*recalloc_of)(void*, size_t, size_t);
static void* (*aligned_recalloc_of)(void*, size_t, size_t, size_t);
static unsigned char* again(unsigned char* p, size_t n) { return recalloc_of(p, n, 1); }
static unsigned char* again_at(unsigned char* p, size_t n) {
  unsigned char* const object = aligned_recalloc_of(p, 1, n, 256);
  if ((uintptr_t)object % 256 != 0) fail("_aligned_recalloc");
  return object;
}

static void zeroed(HMODULE runtime) {
  recalloc_of = (void*)GetProcAddress(runtime, "_recalloc");
  aligned_recalloc_of = (void*)GetProcAddress(runtime, "_aligned_recalloc");
  if (recalloc_of != NULL) check_zeros(again(NULL, 100), again);
  if (aligned_recalloc_of != NULL) check_zeros(again_at(NULL, 100), again_at);
}

// A runtime that is loaded now, and functions that are asked for by name.
static void late(void) {
  const HMODULE runtime = LoadLibraryA("ucrtbase.dll");
  if (runtime == NULL) fail("no ucrtbase.dll");
  void* (*const allocate)(size_t) = (void*)GetProcAddress(runtime, "malloc");
  void (*const release)(void*) = (void*)GetProcAddress(runtime, "free");
  char* (*const copy)(const char*) = (void*)GetProcAddress(runtime, "_strdup");
  void* const object = allocate(100);
  const HMODULE loft = GetModuleHandleA("loft.dll");
  if (loft != NULL) {
    void* (*const start)(const void*) = (void*)GetProcAddress(loft, "loft_object_start");
    if (start(object) != object) fail("the late runtime's malloc is not loft's");
  }
  release(object);
  release(copy("the runtime's own"));
  if (loft != NULL) zeroed(runtime);
}

static void walk(void) {
  _HEAPINFO info = {0};
  int count = 0;
  errno = 0;
  for (int i = 0; i < 10 && _heapwalk(&info) == _HEAPOK; ++i) ++count;
  printf("%d %s\n", count, errno == ENOSYS ? "refused" : "walked");
}
#endif

int main(int count, char** arguments) {
  const char* what = count > 1 ? arguments[1] : "";
  if (strcmp(what, "exchange") == 0)
    exchange();
  else if (strcmp(what, "threads") == 0)
    threads();
  else if (strcmp(what, "corners") == 0)
    corners();
  else if (strcmp(what, "home") == 0)
    home();
  else if (strcmp(what, "double-free") == 0)
    double_free();
#if !defined(LOFT_NAMES)
  else if (strcmp(what, "aligned") == 0)
    aligned();
  else if (strcmp(what, "foreign") == 0)
    foreign();
  else if (strcmp(what, "expand") == 0)
    expand();
  else if (strcmp(what, "late") == 0)
    late();
  else if (strcmp(what, "walk") == 0)
    walk();
#endif
  else
    return 2;
  puts("ok");
  return 0;
}
