#include "base/sealed.h"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/keep.h"

// Where the linker put the headers; without an address if it left them out.
extern "C" [[gnu::weak, gnu::visibility("hidden")]] const ElfW(Ehdr) __ehdr_start;  // NOLINT

namespace loft {

namespace {

// The pages that the loader has made read-only. It does that for whole pages alone, from the one in
// which the part begins. Both are 0 before they are looked for, and 1 where there are none.
// Relaxed: whoever looks finds the same.
constinit Atomic<uintptr_t> first_sealed{0};
constinit Atomic<uintptr_t> end_of_sealed{0};

uintptr_t page_bytes() { return static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)); }

}  // namespace

// Reads the headers of this program or library where they lie in memory. The loader is not asked
// for them: glibc 2.36 leaves the lock of dl_iterate_phdr held for ever in a child that one thread
// forks while another holds it.
void find_sealed_pages() {
  if (end_of_sealed.load(memory_order_relaxed) != 0) return;
  const KeepErrno keep;
  const auto headers = reinterpret_cast<uintptr_t>(&__ehdr_start);
  const auto* const parts =
      reinterpret_cast<const ElfW(Phdr)*>(headers + (headers != 0 ? __ehdr_start.e_phoff : 0));
  const unsigned count = headers != 0 ? __ehdr_start.e_phnum : 0;
  // How far from its linked address everything lies.
  uintptr_t bias = headers;
  for (unsigned i = 0; i < count; ++i) {
    if (parts[i].p_type == PT_LOAD && parts[i].p_offset == 0) bias = headers - parts[i].p_vaddr;
  }
  uintptr_t from = 1;
  uintptr_t end = 1;
  for (unsigned i = 0; i < count; ++i) {
    if (parts[i].p_type != PT_GNU_RELRO) continue;
    from = round_down(bias + parts[i].p_vaddr, page_bytes());
    end = round_down(bias + parts[i].p_vaddr + parts[i].p_memsz, page_bytes());
  }
  first_sealed.store(from, memory_order_relaxed);
  end_of_sealed.store(end, memory_order_relaxed);
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
