#include "files/output.h"

#include <string_view>

#include "base/bits.h"
#include "base/text.h"
#include "os/os.h"

namespace loft::files {

namespace {

// Appends [from, end), expanded. False if it does not fit.
bool expand(const char* from, const char* end, char* result, size_t size, size_t& n) {
  for (; from != end; ++from) {
    if (from + 1 != end && from[0] == '%' && from[1] == 'p') {
      const Text number = Text() << uint64_t{process_number()};
      if (n + number.size() >= size) return false;
      __builtin_memcpy(result + n, number.data(), number.size());
      n += number.size();
      ++from;
      continue;
    }
    if (from + 1 != end && from[0] == '%' && from[1] == '%') ++from;
    if (n + 1 >= size) return false;
    result[n++] = *from;
  }
  return true;
}

}  // namespace

bool expand_path(const char* path, const char* prefix, char* result, size_t size) {
  const char* name = path;
  for (const char* c = path; *c != 0; ++c) name = *c == '/' ? c + 1 : name;
  size_t n = 0;
  const bool fits = expand(path, name, result, size, n) &&
                    expand(prefix, prefix + __builtin_strlen(prefix), result, size, n) &&
                    expand(name, name + __builtin_strlen(name), result, size, n);
  result[fits ? n : 0] = 0;
  return fits;
}

bool name_temporary(const char* path, char* result, size_t size) {
  constexpr std::string_view kName = ".loft-";
  constexpr size_t kDigits = 16;
  const size_t folder = std::string_view(path).rfind('/') + 1;  // 0 where there is none
  if (folder + kName.size() + kDigits >= size) return false;
  __builtin_memcpy(result, path, folder);
  __builtin_memcpy(result + folder, kName.data(), kName.size());
  char* digit = result + folder + kName.size();
  uint64_t drawn = 0;
  os::random_bytes(&drawn, sizeof(drawn));
  for (size_t i = 0; i < kDigits; ++i, drawn >>= 4) *digit++ = "0123456789abcdef"[drawn & 15];
  *digit = 0;
  return true;
}

bool add_word(char* path, size_t size, const char* word) {
  constexpr std::string_view kEndings[] = {".pb.gz", ".pb", ".gz", ".collapsed"};
  const std::string_view whole = path;
  size_t before = whole.size();
  for (const std::string_view ending : kEndings) {
    if (!whole.ends_with(ending)) continue;
    before = whole.size() - ending.size();
    break;
  }
  const size_t added = __builtin_strlen(word) + 1;
  if (whole.size() + added >= size) return false;
  __builtin_memmove(path + before + added, path + before, whole.size() - before + 1);
  path[before] = '.';
  __builtin_memcpy(path + before + 1, word, added - 1);
  return true;
}

void* borrow(size_t bytes) {
  bytes = round_up(bytes, os::page_size());
  void* const memory = os::reserve(bytes);
  if (memory == nullptr || os::commit(memory, bytes)) return memory;
  os::unmap(memory, bytes);
  return nullptr;
}

void give_back(void* memory, size_t bytes) {
  if (memory != nullptr) os::unmap(memory, round_up(bytes, os::page_size()));
}

}  // namespace loft::files
