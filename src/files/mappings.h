// What is mapped into the process: /proc/self/maps, read without allocation and without the
// loader's lock. Also for libloft-inspect, which has a copy.
#pragma once

#include <errno.h>
#include <string.h>

#include <cstddef>
#include <cstdint>

#include "base/raw_file.h"

namespace loft::files {

struct Mapping {
  uintptr_t begin;
  uintptr_t end;
  uint64_t offset;   // in the file, of `begin`
  uint64_t file;     // the same for no other file of its disk; 0 for none
  const char* name;  // of the file; "" for none. Valid until the next one is read
  size_t name_bytes;
  bool readable;
  bool writable;
  bool executable;
  bool shared;
};

// Too long for a stack, which may be a fiber's or a signal's: it lies in borrowed memory. May
// change errno.
class Mappings {
 public:
  Mappings() : file_(raw::open_file("/proc/self/maps", O_RDONLY | O_CLOEXEC)) {}
  ~Mappings() {
    if (is_open()) raw::close_file(file_);
  }
  Mappings(const Mappings&) = delete;
  Mappings& operator=(const Mappings&) = delete;

  bool is_open() const { return file_ >= 0; }

  // The next one, in the order of addresses. False if there is none any more.
  bool next(Mapping* mapping) {
    while (const char* const line = next_line()) {
      if (parse(line, mapping)) return true;
    }
    return false;
  }

 private:
  // Without its end; nullptr at the end of the file. A line that is longer than the buffer is cut.
  const char* next_line() {
    for (;;) {
      char* const line = buffer_ + begin_;
      if (auto* const end = static_cast<char*>(memchr(line, '\n', end_ - begin_))) {
        *end = 0;
        begin_ = static_cast<size_t>(end - buffer_) + 1;
        return line;
      }
      if (begin_ == 0 && end_ == sizeof(buffer_) - 1) end_ = 0;  // drops what cannot be a line
      memmove(buffer_, buffer_ + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
      long got = 0;
      do {
        got = raw::read_file(file_, buffer_ + end_, sizeof(buffer_) - 1 - end_);
      } while (got < 0 && errno == EINTR);
      if (got <= 0) return nullptr;
      end_ += static_cast<size_t>(got);
    }
  }

  static uint64_t hex(const char** at) {
    uint64_t value = 0;
    for (;; ++*at) {
      const char c = **at;
      if (c >= '0' && c <= '9') {
        value = value << 4 | static_cast<unsigned>(c - '0');
      } else if (c >= 'a' && c <= 'f') {
        value = value << 4 | static_cast<unsigned>(c - 'a' + 10);
      } else {
        return value;
      }
    }
  }

  // begin-end perms offset device inode  name. False if the text is none.
  static bool parse(const char* text, Mapping* mapping) {
    *mapping = {};
    mapping->begin = hex(&text);
    if (*text++ != '-') return false;
    mapping->end = hex(&text);
    if (*text != ' ' || strlen(text) < 6) return false;
    mapping->readable = text[1] == 'r';
    mapping->writable = text[2] == 'w';
    mapping->executable = text[3] == 'x';
    mapping->shared = text[4] == 's';
    text += 6;
    mapping->offset = hex(&text);
    text += strspn(text, " ");
    text += strcspn(text, " ");  // the device
    text += strspn(text, " ");
    mapping->file = hex(&text);
    mapping->name = text + strspn(text, " ");
    mapping->name_bytes = strlen(mapping->name);
    return mapping->end > mapping->begin;
  }

  int file_;
  size_t begin_ = 0;
  size_t end_ = 0;
  char buffer_[4096 + 512];  // a path and what is before it
};

}  // namespace loft::files
