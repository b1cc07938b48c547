// libloft-bounds.so: libc's functions that copy and fill, with a look at loft's heap first. Each
// range that begins in an object has to end in it. Preloaded beside libloft.so, it stops a program
// at the very call that would write beyond an object, or read there.
//
// Compilers make short copies of known length themselves: these are not seen.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <wchar.h>

#define LOFT_EXPORT extern "C" __attribute__((visibility("default")))

// Of libloft.so; null without it, and then nothing is looked at.
extern "C" [[gnu::weak]] void loft_check_bounds(const char* call, const void* at, size_t bytes);

namespace {

// libloft.so itself, which may write to all of a place.
uintptr_t own_begin, own_bytes;

// libc's own, found when this library is loaded. Before that, the loader and the libraries that are
// initialised first come here, too.
template <class Function>
struct Real {
  Function* found;
};

Real<void*(void*, const void*, size_t)> real_memcpy, real_memmove;
Real<void*(void*, int, size_t)> real_memset;

int note_own(dl_phdr_info* info, size_t, void*) {
  const auto inside = reinterpret_cast<uintptr_t>(loft_check_bounds);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + part.p_vaddr;
    if (part.p_type != PT_LOAD || inside - begin >= part.p_memsz) continue;
    own_begin = begin;
    own_bytes = part.p_memsz;
    return 1;
  }
  return 0;
}

__attribute__((constructor)) void find_real() {
  if (loft_check_bounds != nullptr) dl_iterate_phdr(note_own, nullptr);
  const auto find = [](const char* name) { return dlsym(RTLD_NEXT, name); };
  real_memcpy.found = reinterpret_cast<void* (*)(void*, const void*, size_t)>(find("memcpy"));
  real_memmove.found = reinterpret_cast<void* (*)(void*, const void*, size_t)>(find("memmove"));
  real_memset.found = reinterpret_cast<void* (*)(void*, int, size_t)>(find("memset"));
}

// Where a range may be wrong, and who asks for it.
struct Call {
  const char* name;
  const void* caller;
};
#define CALL(name) \
  Call { name, __builtin_return_address(0) }

inline void check(Call call, const void* at, size_t bytes) {
  // Nothing is looked at before it is known who libloft.so is: libraries that are initialised first
  // have it free objects, which it clears with their tags' places.
  if (bytes == 0 || own_bytes == 0) return;
  if (reinterpret_cast<uintptr_t>(call.caller) - own_begin < own_bytes) return;
  loft_check_bounds(call.name, at, bytes);
}

// Not a call of itself: the compiler would take the loops for one.
__attribute__((noinline, optimize("no-tree-loop-distribute-patterns"))) void* copy_up(
    void* to, const void* from, size_t bytes) {
  auto* out = static_cast<char*>(to);
  const auto* in = static_cast<const char*>(from);
  while (bytes-- != 0) *out++ = *in++;
  return to;
}
__attribute__((noinline, optimize("no-tree-loop-distribute-patterns"))) void* copy_down(
    void* to, const void* from, size_t bytes) {
  auto* out = static_cast<char*>(to);
  const auto* in = static_cast<const char*>(from);
  while (bytes-- != 0) out[bytes] = in[bytes];
  return to;
}
__attribute__((noinline, optimize("no-tree-loop-distribute-patterns"))) void* fill(void* to,
                                                                                   int value,
                                                                                   size_t bytes) {
  auto* out = static_cast<char*>(to);
  while (bytes-- != 0) *out++ = static_cast<char>(value);
  return to;
}

void* copy(void* to, const void* from, size_t bytes) {
  if (real_memcpy.found != nullptr) return real_memcpy.found(to, from, bytes);
  return copy_up(to, from, bytes);
}
void* move(void* to, const void* from, size_t bytes) {
  if (real_memmove.found != nullptr) return real_memmove.found(to, from, bytes);
  return reinterpret_cast<uintptr_t>(to) < reinterpret_cast<uintptr_t>(from)
             ? copy_up(to, from, bytes)
             : copy_down(to, from, bytes);
}
void* set(void* to, int value, size_t bytes) {
  if (real_memset.found != nullptr) return real_memset.found(to, value, bytes);
  return fill(to, value, bytes);
}

void* checked_copy(Call call, void* to, const void* from, size_t bytes) {
  check(call, from, bytes);
  check(call, to, bytes);
  return copy(to, from, bytes);
}

void* checked_move(Call call, void* to, const void* from, size_t bytes) {
  check(call, from, bytes);
  check(call, to, bytes);
  return move(to, from, bytes);
}

void* checked_set(Call call, void* to, int value, size_t bytes) {
  check(call, to, bytes);
  return set(to, value, bytes);
}

// Copies `length` characters and a closing NUL.
char* checked_text(Call call, char* to, const char* from, size_t length) {
  check(call, from, length + 1);
  check(call, to, length + 1);
  return static_cast<char*>(copy(to, from, length + 1));
}

char* checked_text_filled(Call call, char* to, const char* from, size_t bytes) {
  const size_t length = strnlen(from, bytes);
  check(call, to, bytes);
  copy(to, from, length);
  set(to + length, 0, bytes - length);
  return to + length;
}

}  // namespace

LOFT_EXPORT void* memcpy(void* to, const void* from, size_t bytes) noexcept {
  return checked_copy(CALL("memcpy"), to, from, bytes);
}
LOFT_EXPORT void* mempcpy(void* to, const void* from, size_t bytes) noexcept {
  return static_cast<char*>(checked_copy(CALL("mempcpy"), to, from, bytes)) + bytes;
}
LOFT_EXPORT void* memmove(void* to, const void* from, size_t bytes) noexcept {
  return checked_move(CALL("memmove"), to, from, bytes);
}
LOFT_EXPORT void* memset(void* to, int value, size_t bytes) noexcept {
  return checked_set(CALL("memset"), to, value, bytes);
}
LOFT_EXPORT char* strcpy(char* to, const char* from) noexcept {
  return checked_text(CALL("strcpy"), to, from, strlen(from));
}
LOFT_EXPORT char* stpcpy(char* to, const char* from) noexcept {
  const size_t length = strlen(from);
  return checked_text(CALL("stpcpy"), to, from, length) + length;
}
LOFT_EXPORT char* strcat(char* to, const char* from) noexcept {
  checked_text(CALL("strcat"), to + strlen(to), from, strlen(from));
  return to;
}
LOFT_EXPORT char* strncpy(char* to, const char* from, size_t bytes) noexcept {
  checked_text_filled(CALL("strncpy"), to, from, bytes);
  return to;
}
LOFT_EXPORT char* stpncpy(char* to, const char* from, size_t bytes) noexcept {
  return checked_text_filled(CALL("stpncpy"), to, from, bytes);
}
LOFT_EXPORT char* strncat(char* to, const char* from, size_t most) noexcept {
  char* const end = to + strlen(to);
  const size_t length = strnlen(from, most);
  check(CALL("strncat"), end, length + 1);
  copy(end, from, length);
  end[length] = 0;
  return to;
}
LOFT_EXPORT wchar_t* wmemcpy(wchar_t* to, const wchar_t* from, size_t count) noexcept {
  return static_cast<wchar_t*>(checked_copy(CALL("wmemcpy"), to, from, count * sizeof(wchar_t)));
}
LOFT_EXPORT wchar_t* wmemmove(wchar_t* to, const wchar_t* from, size_t count) noexcept {
  return static_cast<wchar_t*>(checked_move(CALL("wmemmove"), to, from, count * sizeof(wchar_t)));
}
LOFT_EXPORT wchar_t* wmemset(wchar_t* to, wchar_t value, size_t count) noexcept {
  check(CALL("wmemset"), to, count * sizeof(wchar_t));
  for (size_t i = 0; i < count; ++i) to[i] = value;
  return to;
}

// What fortified programs call. The compiler knows no less of the room than loft does, or says that
// it knows nothing.
extern "C" [[noreturn, gnu::weak]] void __chk_fail();

namespace {
void check_room(size_t bytes, size_t room) {
  if (bytes <= room) return;
  if (__chk_fail != nullptr) __chk_fail();  // libc's line, and abort
  __builtin_trap();
}
}  // namespace

LOFT_EXPORT void* __memcpy_chk(void* to, const void* from, size_t bytes, size_t room) noexcept {
  check_room(bytes, room);
  return checked_copy(CALL("memcpy"), to, from, bytes);
}
LOFT_EXPORT void* __mempcpy_chk(void* to, const void* from, size_t bytes, size_t room) noexcept {
  check_room(bytes, room);
  return static_cast<char*>(checked_copy(CALL("mempcpy"), to, from, bytes)) + bytes;
}
LOFT_EXPORT void* __memmove_chk(void* to, const void* from, size_t bytes, size_t room) noexcept {
  check_room(bytes, room);
  return checked_move(CALL("memmove"), to, from, bytes);
}
LOFT_EXPORT void* __memset_chk(void* to, int value, size_t bytes, size_t room) noexcept {
  check_room(bytes, room);
  return checked_set(CALL("memset"), to, value, bytes);
}
LOFT_EXPORT char* __strcpy_chk(char* to, const char* from, size_t room) noexcept {
  const size_t length = strlen(from);
  check_room(length + 1, room);
  return checked_text(CALL("strcpy"), to, from, length);
}
LOFT_EXPORT char* __stpcpy_chk(char* to, const char* from, size_t room) noexcept {
  const size_t length = strlen(from);
  check_room(length + 1, room);
  return checked_text(CALL("stpcpy"), to, from, length) + length;
}
LOFT_EXPORT char* __strcat_chk(char* to, const char* from, size_t room) noexcept {
  const size_t before = strlen(to);
  const size_t length = strlen(from);
  check_room(before + length + 1, room);
  checked_text(CALL("strcat"), to + before, from, length);
  return to;
}
LOFT_EXPORT char* __strncpy_chk(char* to, const char* from, size_t bytes, size_t room) noexcept {
  check_room(bytes, room);
  checked_text_filled(CALL("strncpy"), to, from, bytes);
  return to;
}
LOFT_EXPORT char* __strncat_chk(char* to, const char* from, size_t most, size_t room) noexcept {
  check_room(strlen(to) + strnlen(from, most) + 1, room);
  return strncat(to, from, most);
}
