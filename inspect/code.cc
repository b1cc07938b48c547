// The stack of an object's birth may name code that has been unloaded since, or is just being
// unloaded. So the system is asked about each page before it is read.
#include "inspect/code.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/bits.h"
#include "inspect/loader.h"
#include "inspect/memory.h"

namespace loft::inspect {

namespace {

// The headers of a file, by its own header in front of its first mapping. 0 if it makes no sense.
size_t headers_of(const FoundObject& found, const ElfW(Phdr) * *headers) {
  const auto begin = reinterpret_cast<uintptr_t>(found.begin);
  if (!is_readable(begin)) return 0;
  const auto* const file = static_cast<const ElfW(Ehdr)*>(found.begin);
  const size_t bytes = getauxval(AT_PAGESZ);
  if (memcmp(file->e_ident, ELFMAG, SELFMAG) != 0 || file->e_phentsize != sizeof(ElfW(Phdr)) ||
      file->e_phoff > bytes || file->e_phnum > (bytes - file->e_phoff) / sizeof(ElfW(Phdr)) ||
      file->e_phoff % alignof(ElfW(Phdr)) != 0) {
    return 0;
  }
  *headers = reinterpret_cast<const ElfW(Phdr)*>(begin + file->e_phoff);
  return file->e_phnum;
}

// The build id among the notes of a segment, which the loader has mapped.
bool take_build_id(uintptr_t at, uintptr_t end, size_t align, CodeName* name) {
  while (end - at >= sizeof(ElfW(Nhdr)) && is_readable(at)) {
    const auto* const note = reinterpret_cast<const ElfW(Nhdr)*>(at);
    const uintptr_t owner = at + sizeof(*note);
    const uintptr_t content = owner + round_up(size_t{note->n_namesz}, align);
    const uintptr_t next = content + round_up(size_t{note->n_descsz}, align);
    if (content < owner || next < content || next > end) return false;
    if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
        is_readable(owner & ~uintptr_t{7}) &&
        memcmp(reinterpret_cast<const void*>(owner), "GNU", 4) == 0) {
      name->build_id = reinterpret_cast<const uint8_t*>(content);
      name->build_id_bytes = note->n_descsz;
      return true;
    }
    at = next;
  }
  return false;
}

}  // namespace

bool name_code(uintptr_t pc, CodeName* name) {
  FoundObject found;
  if (!find_object(pc, &found) || found.link_map == nullptr) return false;
  const auto* const map = static_cast<const link_map*>(found.link_map);
  *name = {map->l_name == nullptr ? "" : map->l_name, pc - map->l_addr, nullptr, 0};
  const ElfW(Phdr)* headers = nullptr;
  const size_t count = headers_of(found, &headers);
  for (size_t i = 0; i < count; ++i) {
    const ElfW(Phdr)& header = headers[i];
    const uintptr_t begin = map->l_addr + header.p_vaddr;
    const size_t align = header.p_align == 8 ? 8 : 4;
    if (header.p_type == PT_NOTE && take_build_id(begin, begin + header.p_memsz, align, name))
      break;
  }
  return true;
}

}  // namespace loft::inspect
