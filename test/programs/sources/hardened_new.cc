// All forms of new and delete that fit each other, and what the C++ library does with them. With
// OWN_OPERATORS, the program has some forms itself, as C++ lets it: the other forms are the
// library's.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory_resource>
#include <new>
#include <string>
#include <vector>

#ifdef OWN_OPERATORS
void* operator new(size_t bytes) {
  void* const p = std::malloc((bytes + 63) / 64 * 64);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
void operator delete(void* p) noexcept { std::free(p); }
#endif

namespace {

struct Base {
  virtual ~Base() = default;
  char bytes[40];
};
struct alignas(64) Derived : Base {
  char more[200];
};

void each_form() {
  constexpr size_t kSizes[] = {0, 1, 100, 40'000, 300'000};
  for (const size_t bytes : kSizes) {
    operator delete(operator new(bytes), bytes);
    operator delete[](operator new[](bytes), bytes);
    operator delete(operator new(bytes, std::nothrow));
    operator delete[](operator new[](bytes, std::nothrow), std::nothrow);
    for (size_t alignment = 1; alignment <= 65'536; alignment *= 4) {
      const std::align_val_t aligned{alignment};
      operator delete(operator new(bytes, aligned), bytes, aligned);
      operator delete[](operator new[](bytes, aligned, std::nothrow), aligned);
    }
  }
}

void objects() {
  Base* const one = new Derived;
  delete one;
  delete[] new Derived[3];
  delete[] new std::string[7];
  delete[] new std::string[0];
}

void library() {
  std::vector<int> numbers(50'000);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int>(i * 7919 % 50'021);
  std::stable_sort(numbers.begin(), numbers.end());
  std::pmr::unsynchronized_pool_resource pool;
  std::pmr::vector<std::pmr::string> strings(&pool);
  for (size_t i = 0; i < 5'000; ++i) strings.emplace_back(i % 3'000, 'x');
}

}  // namespace

int main() {
  each_form();
  objects();
  library();
  std::puts("done");
}
