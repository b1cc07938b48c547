// The C library's table of names, in memory. It is data that the loader reads and nobody writes;
// the pages that are written here become the process's own.
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "base/bits.h"
#include "base/macros.h"
#include "os/os.h"
#include "os/symbols.h"

namespace loft::os {

namespace {

// One of the objects that the program consists of, as the loader has mapped it.
class LoadedObject {
 public:
  explicit LoadedObject(const dl_phdr_info& info) : base_(info.dlpi_addr), info_(&info) {}

  bool contains(uintptr_t address) const { return segment_of(address) != nullptr; }

  // False if it has no table of names with a hash in the form that GNU's linker introduced.
  bool find_tables() {
    for (size_t i = 0; i < info_->dlpi_phnum; ++i) {
      if (info_->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
      const auto* entry = at<ElfW(Dyn)>(info_->dlpi_phdr[i].p_vaddr);
      for (; entry->d_tag != DT_NULL; ++entry) {
        if (entry->d_tag == DT_SYMTAB) symbols_ = table<ElfW(Sym)>(entry->d_un.d_ptr);
        if (entry->d_tag == DT_STRTAB) strings_ = table<const char>(entry->d_un.d_ptr);
        if (entry->d_tag == DT_GNU_HASH) hash_ = table<const uint32_t>(entry->d_un.d_ptr);
      }
    }
    return symbols_ != nullptr && strings_ != nullptr && hash_ != nullptr;
  }

  // Calls visit for each function of this name that the object defines: there may be several, of
  // different versions.
  template <class Visit>
  void each_named(const char* name, Visit&& visit) const {
    uint32_t hash = 5381;
    for (const char* at = name; *at != '\0'; ++at) {
      hash = hash * 33 + static_cast<unsigned char>(*at);
    }
    const uint32_t buckets = hash_[0];
    const uint32_t first = hash_[1];  // the symbols before it are not in the table
    const auto* const bucket = hash_ + 4 + hash_[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t* const chain = bucket + buckets;
    uint32_t i = bucket[hash % buckets];
    if (i < first) return;
    for (;; ++i) {
      ElfW(Sym)& symbol = symbols_[i];
      const uint32_t its = chain[i - first];  // the lowest bit marks the end
      if ((its | 1) == (hash | 1) && __builtin_strcmp(strings_ + symbol.st_name, name) == 0 &&
          symbol.st_shndx != SHN_UNDEF && (symbol.st_info & 0xf) == STT_FUNC) {
        visit(symbol);
      }
      if ((its & 1) != 0) return;
    }
  }

  // What the value of a symbol at `address` is.
  ElfW(Addr) value_of(const void* address) const {
    return reinterpret_cast<uintptr_t>(address) - base_;
  }

  // The mapping that the symbols are in.
  struct Mapping {
    uintptr_t begin;
    size_t bytes;
    int protection;
  };
  bool find_mapping(Mapping& mapping) const {
    const ElfW(Phdr)* const segment = segment_of(reinterpret_cast<uintptr_t>(symbols_));
    if (segment == nullptr) return false;
    mapping.begin = round_down(base_ + segment->p_vaddr, page_size());
    mapping.bytes = round_up(base_ + segment->p_vaddr + segment->p_memsz, page_size());
    mapping.bytes -= mapping.begin;
    mapping.protection = PROT_READ | ((segment->p_flags & PF_W) != 0 ? PROT_WRITE : 0) |
                         ((segment->p_flags & PF_X) != 0 ? PROT_EXEC : 0);
    return true;
  }

 private:
  template <class T>
  T* at(ElfW(Addr) address) const {
    return reinterpret_cast<T*>(base_ + address);
  }
  // On most machines the loader has made addresses of what stands in the file.
  template <class T>
  T* table(ElfW(Addr) address) const {
    return address < base_ ? at<T>(address) : reinterpret_cast<T*>(address);
  }
  const ElfW(Phdr) * segment_of(uintptr_t address) const {
    for (size_t i = 0; i < info_->dlpi_phnum; ++i) {
      const ElfW(Phdr)& segment = info_->dlpi_phdr[i];
      const uintptr_t begin = base_ + segment.p_vaddr;
      if (segment.p_type == PT_LOAD && address - begin < segment.p_memsz) return &segment;
    }
    return nullptr;
  }

  uintptr_t base_;
  const dl_phdr_info* info_;
  ElfW(Sym) * symbols_ = nullptr;
  const char* strings_ = nullptr;
  const uint32_t* hash_ = nullptr;
};

struct Renaming {
  const Symbol* symbols;
  size_t count;
  bool done;
};

// Writable for as long as it takes, and the whole of it: a part would stay a mapping of its own.
bool rename_in(const LoadedObject& object, const Symbol* symbols, size_t count) {
  LoadedObject::Mapping mapping;
  if (!object.find_mapping(mapping)) return false;
  auto* const begin = reinterpret_cast<void*>(mapping.begin);
  if (mprotect(begin, mapping.bytes, mapping.protection | PROT_WRITE) != 0) return false;
  for (size_t i = 0; i < count; ++i) {
    object.each_named(symbols[i].name, [&](ElfW(Sym) & symbol) {
      const ElfW(Addr) value = object.value_of(symbols[i].meaning);
      // Relaxed: a lookup by another thread finds the old meaning or the new one.
      if (symbol.st_value != value) __atomic_store_n(&symbol.st_value, value, __ATOMIC_RELAXED);
    });
  }
  mprotect(begin, mapping.bytes, mapping.protection);
  return true;
}

// The loader keeps the object in place for as long as this runs.
int visit_object(dl_phdr_info* info, size_t, void* context) {
  auto* const renaming = static_cast<Renaming*>(context);
  LoadedObject object(*info);
  // Any function that only the C library has.
  if (!object.contains(reinterpret_cast<uintptr_t>(&::getauxval))) return 0;
  renaming->done = object.find_tables() && rename_in(object, renaming->symbols, renaming->count);
  return 1;
}

}  // namespace

bool rename_in_libc(const Symbol* symbols, size_t count) {
  const KeepErrno keep;
  Renaming renaming{symbols, count, false};
  dl_iterate_phdr(visit_object, &renaming);
  return renaming.done;
}

}  // namespace loft::os
