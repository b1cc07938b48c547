// Calls malloc from code of which no frame information says anything, and which has an address of
// other memory in the frame pointer: a page directly above the stack, that another thread opens and
// closes all the time.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { kStack = 256 * 1024, kPage = 4096, kCalls = 20000 };

static char* stack;
static atomic_int done;

#if defined(__x86_64__)
void* allocate_with(void* frame);
__asm__(
    ".text\n"
    ".type allocate_with, @function\n"
    "allocate_with:\n"
    "  push %rbp\n"
    "  mov %rdi, %rbp\n"
    "  mov $40, %edi\n"
    "  call malloc@PLT\n"
    "  pop %rbp\n"
    "  ret\n");
#else
static void* allocate_with(void* frame) { return frame == NULL ? NULL : malloc(40); }
#endif

static void* allocate(void* unused) {
  for (int i = 0; i < kCalls; ++i) free(allocate_with(stack + kStack + 64));
  atomic_store(&done, 1);
  return unused;
}

int main(void) {
  stack = mmap(NULL, kStack + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stack, kStack);
  pthread_t thread;
  if (pthread_create(&thread, &attributes, allocate, NULL) != 0) return 1;
  while (!atomic_load(&done)) {
    mprotect(stack + kStack, kPage, PROT_NONE);
    mprotect(stack + kStack, kPage, PROT_READ);
    for (volatile int i = 0; i < 300; ++i) continue;  // so long it can be read
  }
  pthread_join(thread, NULL);
  puts("survived");
  return 0;
}
