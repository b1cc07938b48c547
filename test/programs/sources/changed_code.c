// A library to preload, as a cache of registrations for RDMA does it: it changes the code of libc's
// munmap and madvise, and so sees each mapping's end, whoever is in front of these functions.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic long ends;

static long see_munmap(void* at, size_t bytes) {
  ends++;
  return syscall(SYS_munmap, at, bytes);
}

static long see_madvise(void* at, size_t bytes, long advice) {
  ends += advice == MADV_DONTNEED;
  return syscall(SYS_madvise, at, bytes, advice);
}

// mov $to, %rax; jmp *%rax
static void lead(const char* name, uintptr_t to) {
  unsigned char code[] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0};
  memcpy(code + 2, &to, sizeof(to));
  char* const from = dlsym(dlopen("libc.so.6", RTLD_LAZY), name);
  char* const page = (char*)((uintptr_t)from & ~(uintptr_t)4095);
  if (mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) _exit(120);
  memcpy(from, code, sizeof(code));
}

__attribute__((constructor)) static void begin(void) {
  lead("munmap", (uintptr_t)see_munmap);
  lead("madvise", (uintptr_t)see_madvise);
}

__attribute__((destructor)) static void tell(void) {
  fprintf(stderr, "%s\n", ends > 20 ? "seen" : "not seen");
}
