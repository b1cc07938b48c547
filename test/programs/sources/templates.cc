// A file that is small to read and long to compile.
#include <algorithm>
#include <array>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <ranges>
#include <regex>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace {

template <size_t N>
struct Node {
  std::array<char, N + 1> payload{};
  std::map<std::string, std::variant<int, std::string, std::vector<double>>> fields;

  [[nodiscard]] size_t weight() const { return N + fields.size(); }
};

template <size_t... I>
size_t visit_all(std::index_sequence<I...>) {
  std::tuple<Node<I>...> nodes;
  ((std::get<I>(nodes).fields[std::to_string(I)] = static_cast<int>(I)), ...);
  return (std::get<I>(nodes).weight() + ...);
}

template <typename... T>
struct List {};

template <typename Head, typename Accumulated>
struct Prepend;
template <typename Head, typename... T>
struct Prepend<Head, List<T...>> {
  using Type = List<Head, T...>;
};
template <size_t N>
struct Build {
  using Type = typename Prepend<std::array<int, N>, typename Build<N - 1>::Type>::Type;
};
template <>
struct Build<0> {
  using Type = List<>;
};
template <typename... T>
constexpr size_t bytes(List<T...>) {
  return (sizeof(T) + ...);
}

constexpr size_t fibonacci(size_t n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

}  // namespace

int main() {
  std::cout << visit_all(std::make_index_sequence<48>{}) << '\n';
  std::cout << bytes(Build<300>::Type{}) << ' '
            << std::integral_constant<size_t, fibonacci(22)>::value << '\n';
  const std::regex words("([a-z]+)-([0-9]+)");
  std::cout << std::regex_replace(std::string("ab-12 cd-34"), words, "$2:$1") << '\n';
  auto squares = std::views::iota(1, 100) | std::views::filter([](int i) { return i % 3 == 0; }) |
                 std::views::transform([](int i) { return i * i; });
  std::cout << std::accumulate(squares.begin(), squares.end(), 0) << '\n';
}
