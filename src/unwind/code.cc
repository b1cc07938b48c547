#include "unwind/code.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include "base/bits.h"
#include "os/auxiliary.h"
#include "os/os.h"
#include "os/symbols.h"
#include "unwind/stack.h"

// Older libcs keep them in a library of their own, which a program need not have.
#pragma weak dlopen
#pragma weak dladdr
#pragma weak dlclose
#pragma weak dlsym
#if defined(__GLIBC__)
#pragma weak dladdr1
#endif

namespace loft::unwind {

namespace {

// What glibc's _dl_find_object answers. Older headers do not have it.
struct FoundObject {
  unsigned long long flags;
  void* begin;
  void* end;
  void* link_map;
  void* header;  // .eh_frame_hdr
  unsigned long long reserved[7];
};
using FindObject = int (*)(void* pc, FoundObject* result);

// Of the compiler's library.
using Visit = int (*)(void* context, void* closure);
using Backtrace = int (*)(Visit visit, void* closure);
using GetIp = uintptr_t (*)(void* context);

// Written by note_code alone; `prepare` publishes it.
struct KnownCode {
  static constexpr size_t kMost = 256;  // beyond it, code is asked for as if it could be unloaded

  Image images[kMost];  // by address
  size_t count = 0;
  Image own;
  FindObject find_object = nullptr;
  Backtrace backtrace = nullptr;
  GetIp get_ip = nullptr;
};
constinit KnownCode known;

// False if the object has no code, or its headers make no sense.
bool read_headers(uintptr_t base, const ElfW(Phdr) * headers, size_t count, Image* image) {
  *image = Image();
  image->begin = UINTPTR_MAX;
  const ElfW(Phdr)* sorted = nullptr;
  for (size_t i = 0; i < count; ++i) {
    const ElfW(Phdr)& header = headers[i];
    if (header.p_type == PT_GNU_EH_FRAME) sorted = &header;
    if (header.p_type != PT_LOAD || (header.p_flags & PF_X) == 0) continue;
    const uintptr_t begin = base + header.p_vaddr;
    image->reads_code = (header.p_flags & PF_R) != 0;
    if (begin < image->begin) image->begin = begin;
    if (begin + header.p_memsz > image->end) image->end = begin + header.p_memsz;
  }
  for (size_t i = 0; i < count && sorted != nullptr; ++i) {
    const ElfW(Phdr)& header = headers[i];
    const uintptr_t inside = sorted->p_vaddr - header.p_vaddr;
    if (header.p_type != PT_LOAD || (header.p_flags & PF_R) == 0 || inside >= header.p_filesz ||
        sorted->p_filesz > header.p_filesz - inside) {
      continue;
    }
    const auto* const begin = reinterpret_cast<const uint8_t*>(base + header.p_vaddr);
    image->entries = {begin, begin + header.p_filesz};
    image->header = {begin + inside, begin + inside + sorted->p_filesz};
  }
  return image->begin < image->end;
}

struct Noting {
  uintptr_t loader = os::auxiliary(AT_BASE);  // 0: the program has none
  bool stays = true;
  bool first = true;
};

// In the order in which the loader has mapped them: the program, what it was started with, and what
// it has loaded since. The loader is the last of those that the program was started with, or
// nearly: libc alone needs it.
int note_object(dl_phdr_info* info, size_t, void* closure) {
  auto* const noting = static_cast<Noting*>(closure);
  Image image;
  const bool has_code = read_headers(info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum, &image);
  // Another namespace of the loader's begins with another object.
  if (noting->first && info->dlpi_phdr != reinterpret_cast<const void*>(os::auxiliary(AT_PHDR))) {
    noting->stays = false;
  }
  // And libloft.so is marked as never to be unloaded.
  const bool own = os::is_own_library() && image.covers(reinterpret_cast<uintptr_t>(&note_code));
  if (has_code && own) known.own = image;
  if (has_code && (noting->stays || own) && known.count < KnownCode::kMost) {
    size_t i = known.count++;
    for (; i > 0 && known.images[i - 1].begin > image.begin; --i) {
      known.images[i] = known.images[i - 1];
    }
    known.images[i] = image;
  }
#if defined(__GLIBC__)
  if (noting->loader == 0 || info->dlpi_addr == noting->loader) noting->stays = false;
#endif  // musl unloads nothing
  noting->first = false;
  return 0;
}

template <class Function>
void look_up(void* handle, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(handle, name));
}

struct Walked {
  uintptr_t* frames;
  size_t most;
  size_t count;
};
int note_frame(void* context, void* closure) {
  constexpr int kGoOn = 0, kStop = 5;
  auto* const walked = static_cast<Walked*>(closure);
  if (walked->count == walked->most) return kStop;
  const uintptr_t pc = known.get_ip(context);
  if (pc == 0) return kStop;
  if (walked->count != 0 || !known.own.covers(pc)) walked->frames[walked->count++] = pc;
  return kGoOn;
}

}  // namespace

namespace {

// The C++ library's own forms of operators give way to loft's.
bool is_cxx_library(const char* name) {
  return __builtin_strstr(name, "libstdc++.so") != nullptr ||
         __builtin_strstr(name, "libc++.so") != nullptr;
}

// Where the object has the function itself; nullptr if it has none, or gets it from another one.
const void* function_in(const link_map& object, const char* function) {
  void* const handle = dlopen(object.l_name, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return nullptr;
  const void* const found = dlsym(handle, function);
  dlclose(handle);
  Dl_info its;
  if (found == nullptr || dladdr(found, &its) == 0) return nullptr;
  return reinterpret_cast<uintptr_t>(its.dli_fbase) == object.l_addr ? its.dli_fbase : nullptr;
}

}  // namespace

bool is_of_another(const char* function) {
  if (dlsym == nullptr || dladdr == nullptr) return false;
  const void* const found = dlsym(RTLD_DEFAULT, function);
  Dl_info its;
  Dl_info own;
  if (found == nullptr || dladdr(found, &its) == 0) return false;
  if (dladdr(reinterpret_cast<const void*>(&is_of_another), &own) == 0) return false;
  if (its.dli_fbase != own.dli_fbase) return true;
  // A library may bind its own calls to what it exports, such as libLLVM.
  if (dlopen == nullptr || dlclose == nullptr) return false;
  void* const all = dlopen(nullptr, RTLD_LAZY);
  bool is = false;
  for (const auto* at = static_cast<const link_map*>(all); at != nullptr && !is; at = at->l_next) {
    if (at->l_name[0] == 0 || is_cxx_library(at->l_name)) continue;
    const void* const base = function_in(*at, function);
    is = base != nullptr && base != own.dli_fbase;
  }
  if (all != nullptr) dlclose(all);
  return is;
}

void stay_loaded() {
#if defined(__GLIBC__)  // musl unloads nothing
  if (dladdr1 == nullptr || dlopen == nullptr) return;
  Dl_info info;
  void* object = nullptr;
  const auto* const here = reinterpret_cast<const void*>(&stay_loaded);
  if (dladdr1(here, &info, &object, RTLD_DL_LINKMAP) == 0) return;
  const char* const name = static_cast<const link_map*>(object)->l_name;
  // The program itself has no name.
  if (name[0] != 0) dlopen(name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
#endif
}

void note_code() {
  Noting noting;
  dl_iterate_phdr(note_object, &noting);
  if (dlsym == nullptr) return;
  look_up(RTLD_DEFAULT, "_dl_find_object", &known.find_object);
  if (known.find_object != nullptr) return;
  void* handle = RTLD_DEFAULT;
  if (dlsym(handle, "_Unwind_Backtrace") == nullptr && dlopen != nullptr) {
    handle = dlopen("libgcc_s.so.1", RTLD_LAZY);
    if (handle == nullptr) return;
  }
  look_up(handle, "_Unwind_GetIP", &known.get_ip);
  if (known.get_ip == nullptr) return;
  look_up(handle, "_Unwind_Backtrace", &known.backtrace);
  // Its first call may allocate.
  uintptr_t frame = 0;
  walk_by_compiler(&frame, 1);
}

const Image& own_code() { return known.own; }

bool has_finder() { return known.find_object != nullptr; }

const Image* find_lasting(uintptr_t pc) {
  size_t low = 0;
  for (size_t high = known.count; high - low > 1;) {
    const size_t middle = low + (high - low) / 2;
    if (known.images[middle].begin <= pc) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return known.count != 0 && known.images[low].covers(pc) ? &known.images[low] : nullptr;
}

namespace {

// The headers of a file, by its own header in front of its first mapping. 0 if it makes no sense.
size_t headers_of(const FoundObject& found, const ElfW(Phdr) * *headers) {
  const auto begin = reinterpret_cast<uintptr_t>(found.begin);
  if (!is_readable(begin)) return 0;
  const auto* const file = static_cast<const ElfW(Ehdr)*>(found.begin);
  const size_t bytes = os::page_size();
  if (__builtin_memcmp(file->e_ident, ELFMAG, SELFMAG) != 0 ||
      file->e_phentsize != sizeof(ElfW(Phdr)) || file->e_phoff > bytes ||
      file->e_phnum > (bytes - file->e_phoff) / sizeof(ElfW(Phdr)) ||
      file->e_phoff % alignof(ElfW(Phdr)) != 0) {
    return 0;
  }
  *headers = reinterpret_cast<const ElfW(Phdr)*>(begin + file->e_phoff);
  return file->e_phnum;
}

}  // namespace

bool find_present(uintptr_t pc, Image* image) {
  FoundObject found = {};
  if (known.find_object == nullptr || known.find_object(reinterpret_cast<void*>(pc), &found) != 0) {
    return false;
  }
  const ElfW(Phdr)* headers = nullptr;
  const size_t count = headers_of(found, &headers);
  const auto begin = reinterpret_cast<uintptr_t>(found.begin);
  for (size_t i = 0; i < count; ++i) {
    if (headers[i].p_type != PT_LOAD) continue;
    // It says how far the mappings go.
    const uintptr_t base = begin - round_down(headers[i].p_vaddr, os::page_size());
    return read_headers(base, headers, count, image) && image->header.begin == found.header &&
           image->covers(pc);
  }
  return false;
}

namespace {

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
        __builtin_memcmp(reinterpret_cast<const void*>(owner), "GNU", 4) == 0) {
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
  FoundObject found = {};
  if (known.find_object == nullptr || known.find_object(reinterpret_cast<void*>(pc), &found) != 0 ||
      found.link_map == nullptr) {
    return false;
  }
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

size_t walk_by_compiler(uintptr_t* frames, size_t most) {
  if (known.backtrace == nullptr) return 0;
  Walked walked = {frames, most, 0};
  known.backtrace(note_frame, &walked);
  return walked.count;
}

}  // namespace loft::unwind
