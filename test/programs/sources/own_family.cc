// A program with a malloc, free, calloc, realloc, memalign and aligned_alloc of its own
// (own_malloc.c), and nothing else: whatever derives from these has to call them, so that they get
// back their own objects.
#include <malloc.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

extern "C" {
// The C library of a later version has them.
[[gnu::weak]] void free_sized(void* object, size_t size);
[[gnu::weak]] void free_aligned_sized(void* object, size_t alignment, size_t size);
// And this one's headers do not.
[[gnu::weak]] void cfree(void* object);
// From own_malloc.c: whether it has made the object.
int is_own(const void* object);
}

namespace {

bool failed = false;

void expect(const char* name, const void* object, size_t alignment = 16) {
  if (is_own(object) != 0 && reinterpret_cast<uintptr_t>(object) % alignment == 0) return;
  std::printf("%s: another's object\n", name);
  failed = true;
}

template <class Make, class Free>
void each(const char* name, Make make, Free destroy, size_t alignment = 16) {
  void* const p = make();
  expect(name, p, alignment);
  destroy(p);
}

void operators() {
  constexpr size_t kBytes = 100;
  constexpr std::align_val_t kAligned{64};
  each("new", [] { return operator new(kBytes); }, [](void* p) { operator delete(p); });
  each(
      "new, sized", [] { return operator new(kBytes); },
      [](void* p) { operator delete(p, kBytes); });
  each(
      "new, nothrow", [] { return operator new(kBytes, std::nothrow); },
      [](void* p) { operator delete(p, std::nothrow); });
  each(
      "new[]", [] { return operator new[](kBytes); },
      [](void* p) { operator delete[](p, kBytes); });
  each(
      "new, aligned", [] { return operator new(kBytes, kAligned); },
      [](void* p) { operator delete(p, kAligned); }, 64);
  each(
      "new[], aligned", [] { return operator new[](kBytes, kAligned); },
      [](void* p) { operator delete[](p, kBytes, kAligned); }, 64);
}

}  // namespace

int main() {
  const size_t page = 4096;
  void* p = reallocarray(nullptr, 10, 10);
  expect("reallocarray of null", p);
  std::memset(p, 7, 100);
  p = reallocarray(p, 10, 1000);
  expect("reallocarray", p);
  if (static_cast<char*>(p)[99] != 7) failed = true;
  free(p);
  char* const string = strdup("a string");
  expect("strdup", string);
  free(string);
  each("valloc", [] { return valloc(100); }, free, page);
  each("pvalloc", [] { return pvalloc(100); }, free, page);
  if (free_sized != nullptr)
    each("free_sized", [] { return malloc(100); }, [](void* q) { free_sized(q, 100); });
  if (free_aligned_sized != nullptr) {
    each(
        "free_aligned_sized", [] { return memalign(64, 100); },
        [](void* q) { free_aligned_sized(q, 64, 100); }, 64);
  }
  if (cfree != nullptr) each("cfree", [] { return malloc(100); }, cfree);
  operators();
  {
    const std::string text(1000, 'x');
    expect("string", text.data());
  }
  std::puts(failed ? "wrong" : "right");
}
