// Objects by each way that C and C++ have without an alignment, 1000 of each.
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>

int main() {
  for (int i = 0; i < 1000; ++i) {
    delete new std::string(50, 'x');
    delete[] new (std::nothrow) int[20];
    std::free(std::realloc(std::malloc(100), 200));
    std::free(reallocarray(nullptr, 10, 10));
  }
  std::puts("done");
}
