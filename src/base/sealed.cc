#include "base/sealed.h"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <span>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/keep.h"

// Where the linker put the headers; without an address if it left them out.
extern "C" [[gnu::weak, gnu::visibility("hidden")]] const ElfW(Ehdr) __ehdr_start;  // NOLINT

namespace loft {

namespace {

// The pages that the loader has made read-only. It does that for whole pages alone, from the one in
// which the part begins. Both are 0 before they are looked for, and 1 where none are found.
// Relaxed: whoever looks finds the same.
constinit Atomic<uintptr_t> first_sealed{0};
constinit Atomic<uintptr_t> end_of_sealed{0};

[[gnu::section(".data.rel.ro.loft_sealed"), gnu::used]] constinit uintptr_t within = 0;

uintptr_t page_bytes() { return static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)); }

// Of this program or library, where they lie in memory; none where the linker left them out.
std::span<const ElfW(Phdr)> parts() {
  const ElfW(Ehdr)* const header = &__ehdr_start;
  if (header == nullptr || __builtin_memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return {};
  const auto at = reinterpret_cast<uintptr_t>(header) + header->e_phoff;
  return {reinterpret_cast<const ElfW(Phdr)*>(at), header->e_phnum};
}

// The loader is not asked for them: glibc 2.36 leaves the lock of dl_iterate_phdr held for ever in
// a child that one thread forks while another holds it.
void find_sealed_pages() {
  if (end_of_sealed.load(memory_order_relaxed) != 0) return;
  const KeepErrno keep;
  uintptr_t from = 1;
  uintptr_t end = 1;
  // How far from its linked address everything lies: by the segment that begins with the headers.
  uintptr_t bias = 0;
  for (const ElfW(Phdr) & part : parts()) {
    if (part.p_type != PT_LOAD || part.p_offset != 0 || part.p_filesz == 0) continue;
    bias = reinterpret_cast<uintptr_t>(&__ehdr_start) - part.p_vaddr;
    break;
  }
  for (const ElfW(Phdr) & part : parts()) {
    if (part.p_type != PT_GNU_RELRO) continue;
    const uintptr_t first = round_down(bias + part.p_vaddr, page_bytes());
    const uintptr_t behind = round_down(bias + part.p_vaddr + part.p_memsz, page_bytes());
    if (reinterpret_cast<uintptr_t>(&within) - first >= behind - first) continue;
    from = first;
    end = behind;
  }
  first_sealed.store(from, memory_order_relaxed);
  end_of_sealed.store(end, memory_order_relaxed);
}

}  // namespace

bool write_sealed(void* to, const void* from, size_t bytes) {
  find_sealed_pages();
  const KeepErrno keep;
  const uintptr_t page = page_bytes();
  const auto at = reinterpret_cast<uintptr_t>(to);
  const uintptr_t first = round_down(at, page);
  const uintptr_t end = round_up(at + bytes, page);
  const uintptr_t end_of_found = end_of_sealed.load(memory_order_relaxed);
  const bool is_sealed = first >= first_sealed.load(memory_order_relaxed) && end <= end_of_found;
  // Where nobody knows, the pages stay as the program's other data are.
  const bool is_unknown = end_of_found == 1;
  void* const pages = reinterpret_cast<void*>(first);
  if ((is_sealed || is_unknown) && mprotect(pages, end - first, PROT_READ | PROT_WRITE) != 0)
    return false;
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
