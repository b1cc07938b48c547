// loft::allocator in the containers of the C++ library, from C++11 on: exits with 0 if all hold
// what they should. Built and run once for each standard, by test_allocator.py.
#include <cstdint>
#include <cstdio>
#include <deque>
#include <initializer_list>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "loft/allocator.hpp"

namespace {

int failures = 0;
void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  ++failures;
}
#define EXPECT(condition) expect(condition, #condition)

struct alignas(128) Wide {
  explicit Wide(int i) : value(i) {}
  int value;
};

template <class T>
using Vector = std::vector<T, loft::allocator<T>>;
using String = std::basic_string<char, std::char_traits<char>, loft::allocator<char>>;

bool aligned(const void* p, std::uintptr_t to) {
  return reinterpret_cast<std::uintptr_t>(p) % to == 0;
}

void in_sequences() {
  Vector<int> numbers;
  for (int i = 0; i < 100000; ++i) numbers.push_back(i);
  Vector<int> moved = std::move(numbers);
  EXPECT(moved.size() == 100000 && moved[99999] == 99999);
  EXPECT(loft_object_start(moved.data() + 50000) == moved.data());
  Vector<Wide> wide;
  for (int i = 0; i < 1000; ++i) {
    wide.emplace_back(i);
    EXPECT(aligned(wide.data(), 128));
  }
  EXPECT(wide[999].value == 999);
  std::list<Wide, loft::allocator<Wide>> list;
  for (int i = 0; i < 100; ++i) list.emplace_back(i);
  for (const Wide& one : list) EXPECT(aligned(&one, 128));
  std::deque<int, loft::allocator<int>> deque(5000, 7);
  EXPECT(deque.back() == 7);
}

void in_strings_and_maps() {
  String text;
  for (int i = 0; i < 1000; ++i) text += "abc";
  EXPECT(text.size() == 3000);
  using Entry = std::pair<const int, String>;
  std::map<int, String, std::less<int>, loft::allocator<Entry>> map;
  std::unordered_map<int, String, std::hash<int>, std::equal_to<int>, loft::allocator<Entry>>
      hashed;
  for (int i = 0; i < 1000; ++i) {
    map.emplace(i, text);
    hashed.emplace(i, text);
  }
  EXPECT(map.at(500) == text && hashed.at(500) == text);
  std::set<int, std::less<int>, loft::allocator<int>> set{3, 1, 2};
  EXPECT(*set.begin() == 1);
  std::shared_ptr<int> shared = std::allocate_shared<int>(loft::allocator<int>(), 42);
  EXPECT(*shared == 42);
}

void as_an_allocator() {
  loft::allocator<int> one;
  const loft::allocator<double> two(one);
  EXPECT(one == two);
  EXPECT(!(one != two));
  for (std::size_t count = 0; count < 3000; count += 1 + count / 4) {
    const auto got = one.allocate_at_least(count);
    EXPECT(got.count >= count);
    EXPECT(loft_malloc_usable_size(got.ptr) >= got.count * sizeof(int));
    EXPECT(loft_malloc_usable_size(got.ptr) < (got.count + 1) * sizeof(int));
    for (std::size_t i = 0; i < got.count; ++i) got.ptr[i] = 1;
    one.deallocate(got.ptr, got.count);
  }
  // Any number between the two is the container's to pass.
  for (const std::size_t count :
       std::initializer_list<std::size_t>{1, 5, 9, 1000, 9001, 50001, 2000001}) {
    for (const std::size_t share : std::initializer_list<std::size_t>{0, 1, 2}) {
      const auto got = one.allocate_at_least(count);
      one.deallocate(got.ptr, count + (got.count - count) * share / 2);
    }
  }
  loft::allocator<Wide> wide;
  const auto got = wide.allocate_at_least(3);
  EXPECT(got.count >= 3 && aligned(got.ptr, 128));
  wide.deallocate(got.ptr, 3);
#if defined(__cpp_lib_allocate_at_least)
  const auto same = std::allocator_traits<loft::allocator<int>>::allocate_at_least(one, 5);
  EXPECT(same.count * sizeof(int) == loft_good_size(5 * sizeof(int)));
  one.deallocate(same.ptr, same.count);
#endif
  bool refused = false;
  volatile std::size_t many = SIZE_MAX / 2;
  try {
    one.deallocate(one.allocate(many), many);
  } catch (const std::bad_array_new_length&) {
    refused = true;
  }
  EXPECT(refused);
  refused = false;
  many = SIZE_MAX / 2 / sizeof(int);
  try {
    one.deallocate(one.allocate(many), many);
  } catch (const std::bad_alloc&) {
    refused = true;
  }
  EXPECT(refused);
}

}  // namespace

int main() {
  in_sequences();
  in_strings_and_maps();
  as_an_allocator();
  return failures == 0 ? 0 : 1;
}
