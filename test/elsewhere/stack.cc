// The stack of a recursion, as loft captures it, in a program that is linked with the single files.
// Only libc is there: no C++ library. With an argument, there is to be no stack.
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

namespace loft::inspect {

void open();
size_t capture(uintptr_t* frames, size_t most);

}  // namespace loft::inspect

namespace {

constexpr size_t kDepth = 40, kMost = 100;
uintptr_t frames[kMost];
size_t count;

char* page;

void capture_here() { count = loft::inspect::capture(frames, kMost); }

// A function that calls nothing is interrupted: it writes where it may not, and then may.
__attribute__((noinline)) void write_page() { *static_cast<volatile char*>(page) = 1; }
void on_signal(int) {
  capture_here();
  mprotect(page, 1, PROT_READ | PROT_WRITE);
}

__attribute__((noinline)) size_t recurse(size_t depth, void (*last)()) {
  if (depth == 0) {
    last();
    return 0;
  }
  const size_t below = recurse(depth - 1, last);
  __asm__ volatile("" : : : "memory");
  return below + 1;
}

// The frames of the recursion that are beside each other in the stack: they return to one place.
size_t recursion() {
  size_t longest = 0, length = 1;
  for (size_t i = 1; i < count; ++i) {
    length = frames[i] == frames[i - 1] ? length + 1 : 1;
    if (length > longest) longest = length;
  }
  return longest;
}

bool finds(void (*last)()) {
  if (recurse(kDepth, last) == kDepth && recursion() + 2 >= kDepth) return true;
  printf("%zu frames, of the recursion %zu\n", count, recursion());
  return false;
}

}  // namespace

int main(int argc, char**) {
  loft::inspect::open();
  if (argc > 1) {
    capture_here();
    printf("%zu frames\n", count);
    return 0;
  }
  if (!finds(capture_here)) return 1;
  page = static_cast<char*>(mmap(nullptr, 1, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  signal(SIGSEGV, on_signal);
  if (!finds(write_page)) return 1;
  puts("ok");
}
