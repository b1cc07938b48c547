// What the loader has mapped: the symbols of an executable or a library.
#pragma once

#include <elf.h>
#include <link.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace loft::os {

inline bool is_function(const ElfW(Sym) & symbol) { return (symbol.st_info & 0xf) == STT_FUNC; }

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

  uintptr_t address_of(const ElfW(Sym) & symbol) const { return base_ + symbol.st_value; }

  // The value of a symbol that lies at `address`.
  ElfW(Addr) value_of(const void* address) const {
    return reinterpret_cast<uintptr_t>(address) - base_;
  }

  // A range and the protection of its pages.
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
      return {begin, begin + segment.p_memsz, PROT_READ | writable};
    }
    return {first, end, PROT_READ};
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

  uintptr_t base_;
  const dl_phdr_info* info_;
  ElfW(Sym) * symbols_ = nullptr;
  const char* strings_ = nullptr;
  const char* name_ = "";
  const uint32_t* hash_ = nullptr;
  const uint32_t* old_hash_ = nullptr;  // that of System V: its second word counts all symbols
};

}  // namespace loft::os
