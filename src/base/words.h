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

constexpr bool equal(std::string_view a, std::string_view b) { return a == b; }

// The rest of `text` after `start`, or nullptr if `text` does not begin with it.
constexpr const char* after(const char* start, const char* text) {
  while (*start != 0 && *start == *text) ++start, ++text;
  return *start == 0 ? text : nullptr;
}

// Whether `name` is one of "NAME,NAME,...".
constexpr bool lists(const char* list, const char* name) {
  for (;;) {
    const char* rest = after(name, list);
    if (rest != nullptr && (*rest == 0 || *rest == ',')) return true;
    while (*list != 0 && *list != ',') ++list;
    if (*list == 0) return false;
    ++list;
  }
}

// Decodes octal escapes in place: "\040" is a space.
constexpr void undo_escapes(char* text) {
  char* to = text;
  for (const char* from = text; *from != 0; ++from) {
    const bool escape = *from == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' &&
                        from[2] <= '7' && from[3] >= '0' && from[3] <= '7';
    if (!escape) {
      *to++ = *from;
      continue;
    }
    *to++ = static_cast<char>((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
    from += 3;
  }
  *to = 0;
}

}  // namespace loft
