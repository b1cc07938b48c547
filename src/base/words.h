// Reading words of text: what options and the system's files have in common. Nothing here
// allocates.
#pragma once

#include <cstdint>
#include <string_view>

namespace loft {

// Reads a decimal number, which is all of `text`. False if it is none, or too large.
constexpr bool parse_number(std::string_view text, uint64_t& number) {
  if (text.empty()) return false;
  number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    if (__builtin_mul_overflow(number, 10u, &number)) return false;
    if (__builtin_add_overflow(number, static_cast<unsigned>(c - '0'), &number)) return false;
  }
  return true;
}

// The rest of `text` after `start`, or nullptr if `text` does not begin with it.
constexpr const char* after(const char* start, const char* text) {
  while (*start != 0 && *start == *text) ++start, ++text;
  return *start == 0 ? text : nullptr;
}

}  // namespace loft
