// Objects from every function that makes one, through every function that takes one, on two
// threads: whoever has replaced some of the functions has replaced what the others do.
#include <dlfcn.h>
#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <string>
#include <thread>

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void* __libc_valloc(size_t);
void __libc_free(void*);
}

namespace {

constexpr size_t kSize = 100;

// Of libloft.so alone. pvalloc is not called by its name: valgrind takes libc's for an error.
template <class Function>
Function* of_loft(const char* name) {
  void* function = dlsym(RTLD_DEFAULT, name);
  if (function == nullptr) exit(2);
  return reinterpret_cast<Function*>(function);
}

void* made(unsigned way) {
  static auto* const pvalloc_ = of_loft<void*(size_t)>("pvalloc");
  void* p = nullptr;
  switch (way) {
    case 0:
      return malloc(kSize);
    case 1:
      return calloc(10, 10);
    case 2:
      return realloc(nullptr, kSize);
    case 3:
      return reallocarray(nullptr, 10, 10);
    case 4:
      return reallocarray(malloc(8), 10, 10);
    case 5:
      return aligned_alloc(64, 128);
    case 6:
      return memalign(64, kSize);
    case 7:
      return posix_memalign(&p, 64, kSize) == 0 ? p : nullptr;
    case 8:
      return valloc(kSize);
    case 9:
      return pvalloc_(kSize);
    case 10:
      return strdup(std::string(kSize, 'x').c_str());
    case 11:
      return __libc_malloc(kSize);
    case 12:
      return __libc_calloc(10, 10);
    case 13:
      return __libc_realloc(nullptr, kSize);
    case 14:
      return __libc_memalign(64, kSize);
    case 15:
      return __libc_valloc(kSize);
    default:
      return nullptr;
  }
}

bool unmade(unsigned way, void* p) {
  static auto* const free_sized = of_loft<void(void*, size_t)>("free_sized");
  static auto* const free_aligned = of_loft<void(void*, size_t, size_t)>("free_aligned_sized");
  static auto* const cfree_ = of_loft<void(void*)>("cfree");
  switch (way) {
    case 0:
      free(p);
      break;
    case 1:
      free(realloc(p, 2 * kSize));
      break;
    case 2:
      free(reallocarray(p, 20, 10));
      break;
    case 3:
      free_sized(p, kSize);
      break;
    case 4:
      free_aligned(p, 64, kSize);
      break;
    case 5:
      cfree_(p);
      break;
    case 6:
      __libc_free(p);
      break;
    case 7:
      free(__libc_realloc(p, 2 * kSize));
      break;
    case 8:
      realloc(p, 0);
      break;
    default:
      return false;
  }
  return true;
}

void every_pair() {
  for (unsigned from = 0; void* probe = made(from); ++from) {
    free(probe);
    for (unsigned to = 0;; ++to) {
      void* p = made(from);
      if (malloc_usable_size(p) < kSize) exit(3);
      memset(p, 1, kSize);
      if (!unmade(to, p)) {
        free(p);
        break;
      }
    }
  }
  std::map<std::string, std::string> words;
  for (int i = 0; i < 100; ++i) words[std::to_string(i)] = std::string(kSize, 'y');
  struct alignas(128) Wide {
    char bytes[256];
  };
  delete new Wide;
  delete[] new (std::nothrow) char[kSize];
}

}  // namespace

int main() {
  every_pair();
  std::thread(every_pair).join();
  dlopen("libc.so.6", RTLD_NOW);
  std::puts("done");
}
