// Edits glibc's symbol table in memory. The loader reads the table, and nobody else writes it. The
// pages that are written here become private copies of the process.
#include <elf.h>
#include <link.h>
#include <sys/mman.h>

#include "base/bits.h"
#include "base/keep_errno.h"
#include "os/os.h"
#include "os/symbols.h"

namespace loft::os {

namespace {

// One loaded object of the program (executable or library), as the loader has mapped it.
class LoadedObject {
 public:
  explicit LoadedObject(const dl_phdr_info& info) : base_(info.dlpi_addr), info_(&info) {}

  // False if the object has no symbol table with a hash table.
  bool find_tables() {
    size_t name = 0;
    for (size_t i = 0; i < info_->dlpi_phnum; ++i) {
      if (info_->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
      const auto* entry = at<ElfW(Dyn)>(info_->dlpi_phdr[i].p_vaddr);
      for (; entry->d_tag != DT_NULL; ++entry) {
        if (entry->d_tag == DT_SYMTAB) symbols_ = table<ElfW(Sym)>(entry->d_un.d_ptr);
        if (entry->d_tag == DT_STRTAB) strings_ = table<const char>(entry->d_un.d_ptr);
        if (entry->d_tag == DT_SONAME) name = entry->d_un.d_val;
        if (entry->d_tag == DT_GNU_HASH) hash_ = table<const uint32_t>(entry->d_un.d_ptr);
        if (entry->d_tag == DT_HASH) old_hash_ = table<const uint32_t>(entry->d_un.d_ptr);
      }
    }
    if (symbols_ == nullptr || strings_ == nullptr) return false;
    if (hash_ == nullptr && old_hash_ == nullptr) return false;
    name_ = strings_ + name;
    return true;
  }

  bool is_libc() const { return __builtin_strcmp(name_, "libc.so.6") == 0; }
  // Older ones have a library for threads beside it.
  bool is_a_part_of_libc() const {
    return is_libc() || __builtin_strcmp(name_, "libpthread.so.0") == 0;
  }

  bool contains(const void* address) const {
    for (size_t i = 0; i < info_->dlpi_phnum; ++i) {
      const ElfW(Phdr)& segment = info_->dlpi_phdr[i];
      if (segment.p_type != PT_LOAD) continue;
      if (value_of(address) - segment.p_vaddr < segment.p_memsz) return true;
    }
    return false;
  }

  // Calls visit for each symbol of this name that the object defines. There may be several
  // versions.
  template <class Visit>
  void each_named(const char* name, Visit&& visit) const {
    const auto visit_if = [&](ElfW(Sym) & symbol) {
      if (symbol.st_shndx == SHN_UNDEF) return;
      if (__builtin_strcmp(strings_ + symbol.st_name, name) == 0) visit(symbol);
    };
    if (hash_ == nullptr) {
      for (uint32_t i = 0; i < old_hash_[1]; ++i) visit_if(symbols_[i]);
      return;
    }
    uint32_t hash = 5381;
    for (const char* at = name; *at != '\0'; ++at) {
      hash = hash * 33 + static_cast<unsigned char>(*at);
    }
    const uint32_t buckets = hash_[0];
    const uint32_t first = hash_[1];  // earlier symbols are not in the hash table
    const auto* const bucket = hash_ + 4 + hash_[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t* const chain = bucket + buckets;
    uint32_t i = bucket[hash % buckets];
    if (i < first) return;
    for (;; ++i) {
      const uint32_t its = chain[i - first];  // the lowest bit marks the end
      if ((its | 1) == (hash | 1)) visit_if(symbols_[i]);
      if ((its & 1) != 0) return;
    }
  }

  const void* address_of(const ElfW(Sym) & symbol) const {
    return reinterpret_cast<const void*>(base_ + symbol.st_value);
  }

  // The value of a symbol that lies at `address`.
  ElfW(Addr) value_of(const void* address) const {
    return reinterpret_cast<uintptr_t>(address) - base_;
  }

  // A range of pages and its protection.
  struct Mapping {
    uintptr_t begin;
    uintptr_t end;
    int protection;
  };
  // The range to make writable for a write to the symbols between `first` and `end`. It is the
  // whole mapping, because a part would remain a separate mapping. Code never becomes writable: if
  // one mapping holds code and symbols, the range is only the symbols' pages. They are data and
  // need not be executable afterwards.
  Mapping mapping_of(uintptr_t first, uintptr_t end) const {
    for (size_t i = 0; i < info_->dlpi_phnum; ++i) {
      const ElfW(Phdr)& segment = info_->dlpi_phdr[i];
      const uintptr_t begin = base_ + segment.p_vaddr;
      if (segment.p_type != PT_LOAD || first - begin >= segment.p_memsz) continue;
      if ((segment.p_flags & PF_X) != 0) break;
      const int writable = (segment.p_flags & PF_W) != 0 ? PROT_WRITE : 0;
      return pages_of(begin, begin + segment.p_memsz, PROT_READ | writable);
    }
    return pages_of(first, end, PROT_READ);
  }

 private:
  template <class T>
  T* at(ElfW(Addr) address) const {
    return reinterpret_cast<T*>(base_ + address);
  }
  // On most machines the loader has already turned the file's offsets into addresses.
  template <class T>
  T* table(ElfW(Addr) address) const {
    return address < base_ ? at<T>(address) : reinterpret_cast<T*>(address);
  }
  static Mapping pages_of(uintptr_t begin, uintptr_t end, int protection) {
    return {round_down(begin, page_size()), round_up(end, page_size()), protection};
  }

  uintptr_t base_;
  const dl_phdr_info* info_;
  ElfW(Sym) * symbols_ = nullptr;
  const char* strings_ = nullptr;
  const char* name_ = "";
  const uint32_t* hash_ = nullptr;
  const uint32_t* old_hash_ = nullptr;  // that of System V: its second word counts all symbols
};

struct Renaming {
  const Symbol* symbols;
  size_t count;
  bool refused;
};

// False if the system refuses to make the table writable.
bool rename_in(const LoadedObject& object, const Symbol* symbols, size_t count) {
  uintptr_t begin = UINTPTR_MAX;
  uintptr_t end = 0;
  const auto each_other = [&](auto&& visit) {
    for (size_t i = 0; i < count; ++i) {
      const ElfW(Addr) value = object.value_of(symbols[i].meaning);
      object.each_named(symbols[i].name, [&](ElfW(Sym) & symbol) {
        const bool is_function = (symbol.st_info & 0xf) == STT_FUNC;
        if (is_function && symbol.st_value != value) visit(symbol, value);
      });
    }
  };
  each_other([&](const ElfW(Sym) & symbol, ElfW(Addr)) {
    begin = least(begin, reinterpret_cast<uintptr_t>(&symbol));
    end = most(end, reinterpret_cast<uintptr_t>(&symbol + 1));
  });
  if (end == 0) return true;
  const LoadedObject::Mapping mapping = object.mapping_of(begin, end);
  auto* const at = reinterpret_cast<void*>(mapping.begin);
  const size_t bytes = mapping.end - mapping.begin;
  if (mprotect(at, bytes, PROT_READ | PROT_WRITE) != 0) return false;
  each_other([](ElfW(Sym) & symbol, ElfW(Addr) value) {
    // Relaxed: a lookup by another thread may find either the old meaning or the new one.
    __atomic_store_n(&symbol.st_value, value, __ATOMIC_RELAXED);
  });
  mprotect(at, bytes, mapping.protection);
  return true;
}

// Runs under a lock of the loader: one thread at a time, and the object cannot be unloaded.
int visit_object(dl_phdr_info* info, size_t, void* context) {
  auto* const renaming = static_cast<Renaming*>(context);
  LoadedObject object(*info);
  if (!object.find_tables() || !object.is_libc()) return 0;
  renaming->refused = !rename_in(object, renaming->symbols, renaming->count);
  return 1;
}

struct Search {
  const char* name;
  bool found;
};

// As above. The loader looks through the objects in this order.
int look_into_object(dl_phdr_info* info, size_t, void* context) {
  auto* const search = static_cast<Search*>(context);
  LoadedObject object(*info);
  if (object.contains(reinterpret_cast<const void*>(&look_into_object))) return 1;
  if (object.find_tables())
    object.each_named(search->name, [&](const ElfW(Sym)&) { search->found = true; });
  return search->found ? 1 : 0;
}

}  // namespace

bool is_defined_before(const char* name);
bool is_defined_before(const char* name) {
  const KeepErrno keep;
  Search search{name, false};
  dl_iterate_phdr(look_into_object, &search);
  return search.found;
}

const void* find_in_libc(const char* function) {
  struct Wanted {
    const char* name;
    const void* found;
  } wanted{function, nullptr};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* context) {
        auto* const sought = static_cast<Wanted*>(context);
        LoadedObject object(*info);
        if (!object.find_tables() || !object.is_a_part_of_libc()) return 0;
        object.each_named(sought->name, [&](const ElfW(Sym) & symbol) {
          sought->found = object.address_of(symbol);
        });
        return sought->found == nullptr ? 0 : 1;
      },
      &wanted);
  return wanted.found;
}

bool rename_in_libc(const Symbol* symbols, size_t count) {
  const KeepErrno keep;
  Renaming renaming{symbols, count, false};
  dl_iterate_phdr(visit_object, &renaming);
  return !renaming.refused;
}

}  // namespace loft::os
