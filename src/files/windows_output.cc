// Files that loft writes, on Windows: numbers of the C runtime, whose calls for files allocate
// nothing of the program's.
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <sys/stat.h>
#include <windows.h>

#include "base/keep_errno.h"
#include "files/output.h"

namespace loft::files {

int Output::open(const char* path) {
  const KeepErrno keep;
  path_ = path;
  constexpr int kFlags = _O_WRONLY | _O_CREAT | _O_EXCL | _O_BINARY | _O_NOINHERIT;
  do {
    if (!name_temporary(path, temporary_, sizeof(temporary_))) return ENAMETOOLONG;
    file_ = _open(temporary_, kFlags, _S_IREAD | _S_IWRITE);
  } while (file_ < 0 && errno == EEXIST);
  return file_ < 0 ? errno : 0;
}

int Output::close(int error) {
  const KeepErrno keep;
  const DWORD saved = GetLastError();
  _close(file_);
  if (error == 0 && !MoveFileExA(temporary_, path_, MOVEFILE_REPLACE_EXISTING)) error = EACCES;
  if (error != 0) DeleteFileA(temporary_);
  SetLastError(saved);
  return error;
}

int open_to_append(const char* path, const char** why) {
  const KeepErrno keep;
  constexpr int kFlags = _O_WRONLY | _O_APPEND | _O_CREAT | _O_BINARY | _O_NOINHERIT;
  const int file = _open(path, kFlags, _S_IREAD | _S_IWRITE);
  *why = file < 0 ? "it cannot be opened" : nullptr;
  return file;
}

bool write_at_once(int file, const char* text, size_t bytes) {
  const KeepErrno keep;
  return _write(file, text, static_cast<unsigned>(bytes)) == static_cast<int>(bytes);
}

void close_output(int file) {
  const KeepErrno keep;
  _close(file);
}

// Here a write that fails is no signal.
WithoutSignals::WithoutSignals() : before_{}, ours_{} {}
WithoutSignals::~WithoutSignals() {}

uint64_t wall_clock_ns() {
  constexpr uint64_t kUntil1970 = 116'444'736'000'000'000;  // from 1601, in 100 ns
  FILETIME now;
  GetSystemTimeAsFileTime(&now);
  return ((uint64_t{now.dwHighDateTime} << 32 | now.dwLowDateTime) - kUntil1970) * 100;
}

size_t copy_if_there(void* to, uintptr_t from, size_t bytes) {
  const DWORD saved = GetLastError();
  SIZE_T copied = 0;
  ReadProcessMemory(GetCurrentProcess(), reinterpret_cast<const void*>(from), to, bytes, &copied);
  SetLastError(saved);
  return copied;
}

bool path_of_program(char* to, size_t bytes) {
  const DWORD size = GetModuleFileNameA(nullptr, to, static_cast<DWORD>(bytes));
  return size != 0 && size < bytes;
}

unsigned process_number() { return GetCurrentProcessId(); }

}  // namespace loft::files
