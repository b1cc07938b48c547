// A program in C++ with the C++ library in libraries of their own: threads, containers, exceptions.
#include <atomic>
#include <cstdio>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

int main() {
  std::atomic<int> sum{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&sum, i] {
      thread_local std::string mine(1000, 'x');
      std::vector<std::unique_ptr<std::string>> many;
      for (int j = 0; j < 20000; ++j) many.push_back(std::make_unique<std::string>(j % 300, 'a'));
      for (const auto& one : many) sum += one->find('b') == mine.find('y') ? 1 : i;
    });
  }
  for (std::thread& thread : threads) thread.join();
  try {
    const volatile std::size_t most = static_cast<std::size_t>(-1) / 2;
    char* const never = new char[most];
    std::printf("%p\n", static_cast<void*>(never));
    return 1;
  } catch (const std::bad_alloc&) {
  }
  std::puts(sum == 80000 ? "ok" : "lost");
  return 0;
}
