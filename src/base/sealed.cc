#include "base/sealed.h"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "base/bits.h"
#include "base/keep_errno.h"

namespace loft {

namespace {

struct SealedPages {
  uintptr_t from;
  uintptr_t end;
  size_t page;
  bool found;
};

// Whether the loader has made the pages read-only. It does that for whole pages alone, from the one
// in which the part begins.
int find_sealed(dl_phdr_info* object, size_t, void* context) {
  auto& pages = *static_cast<SealedPages*>(context);
  for (unsigned i = 0; i < object->dlpi_phnum; ++i) {
    const auto& part = object->dlpi_phdr[i];
    if (part.p_type != PT_GNU_RELRO) continue;
    const uintptr_t from = uintptr_t{object->dlpi_addr} + part.p_vaddr;
    pages.found |= pages.from >= round_down(from, pages.page) &&
                   pages.end <= round_down(from + part.p_memsz, pages.page);
  }
  return pages.found ? 1 : 0;
}

}  // namespace

bool write_sealed(void* to, const void* from, size_t bytes) {
  const KeepErrno keep;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const auto at = reinterpret_cast<uintptr_t>(to);
  SealedPages pages = {round_down(at, page), round_up(at + bytes, page), page, false};
  dl_iterate_phdr(find_sealed, &pages);
  void* const first = reinterpret_cast<void*>(pages.from);
  const size_t length = pages.end - pages.from;
  if (pages.found && mprotect(first, length, PROT_READ | PROT_WRITE) != 0) return false;
  __builtin_memcpy(to, from, bytes);
  if (pages.found) mprotect(first, length, PROT_READ);
  return true;
}

}  // namespace loft
