#include "base/sealed.h"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/keep.h"

namespace loft {

namespace {

// The pages that the loader has made read-only. It does that for whole pages alone, from the one in
// which the part begins. Both are 0 before they are looked for, and 1 where there are none.
// Relaxed: whoever looks finds the same.
constinit Atomic<uintptr_t> first_sealed{0};
constinit Atomic<uintptr_t> end_of_sealed{0};

[[gnu::section(".data.rel.ro.loft_sealed"), gnu::used]] constinit uintptr_t within = 0;

struct SealedPages {
  uintptr_t page;
  uintptr_t from, end;
};

int find(dl_phdr_info* object, size_t, void* context) {
  auto& found = *static_cast<SealedPages*>(context);
  const auto at = reinterpret_cast<uintptr_t>(&within);
  for (unsigned i = 0; i < object->dlpi_phnum; ++i) {
    const auto& part = object->dlpi_phdr[i];
    if (part.p_type != PT_GNU_RELRO) continue;
    const uintptr_t from = round_down(uintptr_t{object->dlpi_addr} + part.p_vaddr, found.page);
    const uintptr_t end =
        round_down(uintptr_t{object->dlpi_addr} + part.p_vaddr + part.p_memsz, found.page);
    if (at - from >= end - from) continue;
    found.from = from;
    found.end = end;
  }
  return found.end != 1;
}

uintptr_t page_bytes() { return static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)); }

}  // namespace

void find_sealed_pages() {
  if (end_of_sealed.load(memory_order_relaxed) != 0) return;
  const KeepErrno keep;
  SealedPages found = {page_bytes(), 1, 1};
  dl_iterate_phdr(find, &found);
  first_sealed.store(found.from, memory_order_relaxed);
  end_of_sealed.store(found.end, memory_order_relaxed);
}

bool write_sealed(void* to, const void* from, size_t bytes) {
  find_sealed_pages();
  const KeepErrno keep;
  const uintptr_t page = page_bytes();
  const auto at = reinterpret_cast<uintptr_t>(to);
  const uintptr_t first = round_down(at, page);
  const uintptr_t end = round_up(at + bytes, page);
  const bool is_sealed = first >= first_sealed.load(memory_order_relaxed) &&
                         end <= end_of_sealed.load(memory_order_relaxed);
  void* const pages = reinterpret_cast<void*>(first);
  if (is_sealed && mprotect(pages, end - first, PROT_READ | PROT_WRITE) != 0) return false;
  auto* const words = static_cast<uint64_t*>(to);
  for (size_t i = 0; i < bytes / sizeof(uint64_t); ++i) {
    uint64_t word = 0;
    __builtin_memcpy(&word, static_cast<const char*>(from) + i * sizeof(word), sizeof(word));
    store_word(words[i], word, memory_order_release);
  }
  if (is_sealed) mprotect(pages, end - first, PROT_READ);
  return true;
}

}  // namespace loft
