// A library to preload, before loft: the kernel seems to have pages of PAGE bytes, a multiple of
// its own. Calls on memory are rounded as such a kernel rounds them, with all that this does to
// neighbours, and where it would refuse them as not aligned, the process ends with a line.
//
// Only calls by libc's names are seen: those of the program and of loft, not libc's own. What is
// known otherwise keeps the kernel's own pages: sysconf, /proc, stacks, and the segments of
// programs and libraries, which are laid out for such pages. What the loader has made read-only
// there (RELRO) loft writes to with the first dlopen, a profile and hardened=full.
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
  kOwnPage = 4096,
  kScanPages = (int)0xC0606610,  // PAGEMAP_SCAN, which tells of the kernel's own pages
};
#define SHOWN __attribute__((visibility("default")))

unsigned long __getauxval(unsigned long kind);  // glibc's own name of it

SHOWN unsigned long getauxval(unsigned long kind) {
  return kind == AT_PAGESZ ? PAGE : __getauxval(kind);
}

static size_t rounded(size_t bytes) { return (bytes + PAGE - 1) & ~(size_t)(PAGE - 1); }

static void* address(long result) { return (void*)result; }

static int aligned(const char* call, const void* at, size_t bytes) {
  if (((uintptr_t)at & (PAGE - 1)) == 0) return 1;
  if (at != MAP_FAILED) {
    char line[200];
    const int length =
        snprintf(line, sizeof(line), "larger pages: %s(%p, %zu) is not aligned\n", call, at, bytes);
    if (write(STDERR_FILENO, line, (size_t)length) == length) abort();
  }
  errno = EINVAL;
  return 0;
}

// Addresses that nothing else takes, for a call that puts something there.
static char* aligned_place(size_t bytes) {
  const size_t room = rounded(bytes) + PAGE;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  char* const p = address(syscall(SYS_mmap, NULL, room, PROT_NONE, flags, -1, 0));
  if (p == MAP_FAILED) return p;
  const size_t before = rounded((uintptr_t)p) - (uintptr_t)p;
  if (before != 0) syscall(SYS_munmap, p, before);
  if (before != PAGE) syscall(SYS_munmap, p + before + rounded(bytes), PAGE - before);
  return p + before;
}

SHOWN void* mmap(void* at, size_t bytes, int protection, int flags, int file, off_t offset) {
  const int fixed = (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) != 0;
  if (fixed && !aligned("mmap", at, bytes)) return MAP_FAILED;
  const size_t whole = file < 0 ? rounded(bytes) : bytes;  // behind a file's end there is nothing
  if (whole < bytes) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  char* p = address(syscall(SYS_mmap, at, whole, protection, flags, file, offset));
  if (p == MAP_FAILED || ((uintptr_t)p & (PAGE - 1)) == 0) return p;
  // The kernel has chosen a place, and does not know of the larger pages.
  syscall(SYS_munmap, p, whole);
  p = aligned_place(whole);
  if (p == MAP_FAILED) return p;
  return address(syscall(SYS_mmap, p, whole, protection, flags | MAP_FIXED, file, offset));
}

SHOWN int munmap(void* at, size_t bytes) {
  return aligned("munmap", at, bytes) ? (int)syscall(SYS_munmap, at, rounded(bytes)) : -1;
}

enum { kMostParts = 64 };
static struct {
  uintptr_t begin, end;
} sealed[kMostParts];
static int parts;

static int note_sealed(struct dl_phdr_info* object, size_t bytes, void* context) {
  (void)bytes, (void)context;
  for (int i = 0; i < object->dlpi_phnum && parts < kMostParts; ++i) {
    const ElfW(Phdr)* const part = &object->dlpi_phdr[i];
    if (part->p_type != PT_GNU_RELRO) continue;
    const uintptr_t begin = object->dlpi_addr + part->p_vaddr;
    sealed[parts].begin = begin & ~(uintptr_t)(kOwnPage - 1);
    sealed[parts++].end = begin + part->p_memsz;
  }
  return 0;
}

static int is_sealed(uintptr_t at, size_t bytes) {
  for (int i = 0; i < parts; ++i) {
    if (at >= sealed[i].begin && at + bytes <= sealed[i].end) return 1;
  }
  return 0;
}

SHOWN int mprotect(void* at, size_t bytes, int protection) {
  if (is_sealed((uintptr_t)at, bytes)) return (int)syscall(SYS_mprotect, at, bytes, protection);
  if (!aligned("mprotect", at, bytes)) return -1;
  return (int)syscall(SYS_mprotect, at, rounded(bytes), protection);
}

SHOWN int madvise(void* at, size_t bytes, int advice) {
  if (!aligned("madvise", at, bytes)) return -1;
  return (int)syscall(SYS_madvise, at, rounded(bytes), advice);
}

SHOWN void* mremap(void* from, size_t before, size_t after, int flags, ...) {
  va_list more;
  va_start(more, flags);
  void* const to = (flags & MREMAP_FIXED) != 0 ? va_arg(more, void*) : NULL;
  va_end(more);
  if (!aligned("mremap", from, before) || !aligned("mremap", to, after)) return MAP_FAILED;
  const size_t old_bytes = rounded(before), bytes = rounded(after);
  if ((flags & MREMAP_FIXED) != 0 || (flags & MREMAP_MAYMOVE) == 0)
    return address(syscall(SYS_mremap, from, old_bytes, bytes, flags, to));
  char* const place = aligned_place(bytes);
  if (place == MAP_FAILED) return place;
  char* const p = address(syscall(SYS_mremap, from, old_bytes, bytes, flags | MREMAP_FIXED, place));
  if (p == MAP_FAILED) syscall(SYS_munmap, place, bytes);
  return p;
}

// A large page has memory if one of its parts has.
SHOWN int mincore(void* at, size_t bytes, unsigned char* pages) {
  enum { kParts = PAGE / kOwnPage };
  if (!aligned("mincore", at, bytes)) return -1;
  for (size_t i = 0; i < rounded(bytes) / PAGE; ++i) {
    unsigned char parts[kParts];
    if (syscall(SYS_mincore, (char*)at + i * PAGE, PAGE, parts) != 0) return -1;
    pages[i] = 0;
    for (int part = 0; part < kParts; ++part) pages[i] |= parts[part] & 1;
  }
  return 0;
}

// loft asks the kernel itself, by no name of libc's.
static void refuse_scans(void) {
  enum {
    kCall = offsetof(struct seccomp_data, nr),
    kWhat = offsetof(struct seccomp_data, args[1])
  };
  struct sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kCall),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kWhat),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)kScanPages, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTTY),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog filter = {sizeof(steps) / sizeof(steps[0]), steps};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) != 0) {
    abort();
  }
}

__attribute__((constructor)) static void begin(void) {
  dl_iterate_phdr(note_sealed, NULL);
  refuse_scans();
}
