// A file that only its owner may have written: settings for all processes of a system. Read line by
// line, without allocation, without libc's functions, and without ever waiting. errno stays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace loft::files {

// A longer file is refused as a whole, a longer line by itself.
inline constexpr size_t kLongestTrusted = size_t{64} << 10;
inline constexpr size_t kLongestTrustedLine = 4096 + 127;  // a path, and a name before it

struct TrustedLine {
  std::string_view text;  // without its end; the beginning of a line that is too long
  uint64_t number;        // from 1
  bool whole;
};

// Calls `visit` for each line. nullptr if all was read, or if there is no such file; which costs
// one system call. Otherwise what was wrong: the file is not the owner's, others may write to it,
// it is a link, a queue or anything but a regular file, it is too long, or cannot be read. Of a
// file that is refused no line is visited, unless reading fails in the middle, or it grows there.
using VisitTrusted = void (*)(void* context, const TrustedLine& line);
const char* visit_trusted(const char* path, unsigned owner, VisitTrusted visit, void* context);

}  // namespace loft::files
