#include "files/mappings.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <new>

#include "base/bits.h"
#include "base/keep.h"
#include "base/raw_file.h"
#include "files/output.h"

namespace loft::files {

namespace {

#if UINTPTR_MAX > 0xffffffffu
using Header = Elf64_Ehdr;
using Segment = Elf64_Phdr;
using Note = Elf64_Nhdr;
#else
using Header = Elf32_Ehdr;
using Segment = Elf32_Phdr;
using Note = Elf32_Nhdr;
#endif

uint64_t hex(const char*& at) {
  uint64_t value = 0;
  for (;; ++at) {
    unsigned digit = 0;
    if (*at >= '0' && *at <= '9') {
      digit = static_cast<unsigned>(*at - '0');
    } else if (*at >= 'a' && *at <= 'f') {
      digit = static_cast<unsigned>(*at - 'a') + 10;
    } else {
      return value;
    }
    value = value << 4 | digit;
  }
}

// begin-end perms offset device inode  name. False if the text is none.
bool parse(const char* text, Mapping& mapping) {
  mapping = Mapping{};
  mapping.begin = hex(text);
  if (*text != '-') return false;
  ++text;
  mapping.end = hex(text);
  if (*text != ' ' || strlen(text) < 6) return false;
  ++text;
  mapping.readable = text[0] == 'r';
  mapping.writable = text[1] == 'w';
  mapping.executable = text[2] == 'x';
  mapping.shared = text[3] == 's';
  text += 4;
  while (*text == ' ') ++text;
  mapping.offset = hex(text);
  for (int field = 0; field < 2; ++field) {
    while (*text == ' ') ++text;
    while (*text != ' ' && *text != 0) ++text;
  }
  while (*text == ' ') ++text;
  mapping.name = text;
  mapping.name_bytes = strlen(text);
  return mapping.end > mapping.begin;
}

// What is worked with; not on the stack, which may be a fiber's or a signal's.
constexpr size_t kFirstBytes = 4096;
constexpr size_t kNoteBytes = 1024;
struct Scratch {
  uint8_t first[kFirstBytes];  // of the file
  uint8_t note[kNoteBytes];
  char first_name[1024];
};

// The name of the builder is GNU. False if this is no such note.
bool take_build_id(const uint8_t* at, size_t left, size_t align, Mapping& mapping) {
  while (left >= sizeof(Note)) {
    Note note;
    memcpy(&note, at, sizeof(note));
    const size_t name = round_up(note.n_namesz, align);
    const size_t content = round_up(note.n_descsz, align);
    if (name > left - sizeof(Note) || content > left - sizeof(Note) - name) return false;
    const uint8_t* const data = at + sizeof(Note) + name;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
        memcmp(at + sizeof(Note), "GNU", 4) == 0) {
      mapping.build_id = data;
      mapping.build_id_bytes = note.n_descsz;
      return true;
    }
    at = data + content;
    left -= sizeof(Note) + name + content;
  }
  return false;
}

// The note lies in the pages that begin the file; [begin, end) are these. They are copied: the file
// may have been cut, or the code unloaded.
void find_build_id(uintptr_t begin, uintptr_t end, Scratch& scratch, Mapping& mapping) {
  const size_t bytes = end - begin;
  const size_t copied = copy_if_there(scratch.first, begin, least(bytes, kFirstBytes));
  Header header;
  if (copied < sizeof(header)) return;
  memcpy(&header, scratch.first, sizeof(header));
  if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phentsize != sizeof(Segment)) return;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    const size_t at = header.e_phoff + i * sizeof(Segment);
    if (header.e_phoff > copied || at > copied - sizeof(Segment)) return;
    Segment segment;
    memcpy(&segment, scratch.first + at, sizeof(segment));
    if (segment.p_type != PT_NOTE || segment.p_offset > bytes ||
        segment.p_filesz > bytes - segment.p_offset) {
      continue;
    }
    const size_t wanted = least<size_t>(segment.p_filesz, kNoteBytes);
    const size_t there = copy_if_there(scratch.note, begin + segment.p_offset, wanted);
    if (take_build_id(scratch.note, there, segment.p_align == 8 ? 8 : 4, mapping)) return;
  }
}

class LineReader {
 public:
  explicit LineReader(int file) : file_(file) {}

  // The next line, without its end; nullptr at the end of the file. A longer line than the buffer
  // is cut.
  const char* next() {
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
      ssize_t got = 0;
      do {
        got = raw::read_file(file_, buffer_ + end_, sizeof(buffer_) - 1 - end_);
      } while (got < 0 && errno == EINTR);
      if (got <= 0) return nullptr;
      end_ += static_cast<size_t>(got);
    }
  }

 private:
  int file_;
  char buffer_[4096 + 512];  // a path and what is before it
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace

bool visit_mappings(VisitMapping visit, void* context, BuildIds ids) {
  struct Work {
    explicit Work(int file) : reader(file) {}
    LineReader reader;
    Scratch scratch{};
  };
  const KeepErrno keep;
  void* const memory = borrow(sizeof(Work));
  if (memory == nullptr) return false;
  const int file = raw::open_file("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    give_back(memory, sizeof(Work));
    return false;
  }
  auto& work = *new (memory) Work(file);
  Scratch& scratch = work.scratch;
  Mapping mapping;
  // The mapping that begins the file of the last line.
  uintptr_t first_begin = 0;
  uintptr_t first_end = 0;
  while (const char* const text = work.reader.next()) {
    if (!parse(text, mapping)) continue;
    const bool names_file = mapping.name[0] == '/';
    if (mapping.offset == 0 && mapping.readable && names_file &&
        mapping.name_bytes < sizeof(scratch.first_name)) {
      first_begin = mapping.begin;
      first_end = mapping.end;
      memcpy(scratch.first_name, mapping.name, mapping.name_bytes + 1);
    }
    if (ids == BuildIds::kNotWanted || !mapping.executable) {
      // Nothing more to say of it.
    } else if (strcmp(mapping.name, "[vdso]") == 0) {
      find_build_id(mapping.begin, mapping.end, scratch, mapping);
    } else if (names_file && strcmp(mapping.name, scratch.first_name) == 0) {
      find_build_id(first_begin, first_end, scratch, mapping);
    }
    visit(context, mapping);
  }
  raw::close_file(file);
  give_back(memory, sizeof(Work));
  return true;
}

}  // namespace loft::files
