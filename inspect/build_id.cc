#include "inspect/build_id.h"

#include <elf.h>
#include <link.h>
#include <string.h>

#include "base/bits.h"

namespace loft::inspect {

size_t find_build_id(uintptr_t begin, uintptr_t end,
                     bool (*copy)(void* to, uintptr_t from, size_t bytes),
                     uint8_t (&id)[kLongestBuildId]) {
  ElfW(Ehdr) file;
  if (!copy(&file, begin, sizeof(file)) || memcmp(file.e_ident, ELFMAG, SELFMAG) != 0) return 0;
  for (unsigned i = 0; i < file.e_phnum; ++i) {
    ElfW(Phdr) segment;
    if (!copy(&segment, begin + file.e_phoff + i * sizeof(segment), sizeof(segment))) return 0;
    const size_t bytes = end - begin;
    if (segment.p_type != PT_NOTE || segment.p_offset > bytes ||
        segment.p_filesz > bytes - segment.p_offset) {
      continue;
    }
    const size_t align = segment.p_align == 8 ? 8 : 4;
    uintptr_t at = begin + segment.p_offset;
    for (const uintptr_t last = at + segment.p_filesz; at < last;) {
      // And its owner, which has three letters and a NUL where it is GNU.
      struct {
        ElfW(Nhdr) head;
        char owner[4];
      } note;
      if (!copy(&note, at, sizeof(note))) return 0;
      const uintptr_t content =
          at + sizeof(note.head) + round_up(size_t{note.head.n_namesz}, align);
      if (note.head.n_type == NT_GNU_BUILD_ID && note.head.n_namesz == sizeof(note.owner) &&
          memcmp(note.owner, "GNU", sizeof(note.owner)) == 0) {
        const size_t length = least<size_t>(note.head.n_descsz, sizeof(id));
        return copy(id, content, length) ? length : 0;
      }
      at = content + round_up(size_t{note.head.n_descsz}, align);
    }
  }
  return 0;
}

}  // namespace loft::inspect
