#include "files/output.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <initializer_list>
#include <string_view>

#include "base/bits.h"
#include "base/keep.h"
#include "base/raw_file.h"
#include "base/text.h"
#include "os/calls.h"
#include "os/os.h"

namespace loft::files {

namespace {

// Appends [from, end), expanded. False if it does not fit.
bool expand(const char* from, const char* end, char* result, size_t size, size_t& n) {
  for (; from != end; ++from) {
    if (from + 1 != end && from[0] == '%' && from[1] == 'p') {
      const Text number = Text() << uint64_t{process_number()};
      if (n + number.size() >= size) return false;
      __builtin_memcpy(result + n, number.data(), number.size());
      n += number.size();
      ++from;
      continue;
    }
    if (from + 1 != end && from[0] == '%' && from[1] == '%') ++from;
    if (n + 1 >= size) return false;
    result[n++] = *from;
  }
  return true;
}

constexpr const char* kNotRegular = "it is no regular file";

// Takes one that is pending. Another thread may take it first, if it was sent to the process.
void take_pending(const sigset_t& one) {
  const timespec none = {};
  sigtimedwait(&one, nullptr, &none);
}

const char* why_not_open(int error) {
  return error == ENOENT   ? "its folder does not exist"
         : error == EACCES ? "permission denied"
         : error == ELOOP  ? "it is a symbolic link"
         : error == EISDIR ? "it is a folder"
         : error == ENXIO  ? kNotRegular
                           : "it cannot be opened";
}

const char* why_not_appended(int file) {
  struct stat found;
  if (raw::look_at_file(file, &found) != 0) return "the system does not say whose it is";
  if (!S_ISREG(found.st_mode)) return kNotRegular;
  if (found.st_nlink != 1) return "it has another name, too";
  // Root's, which its own user may write to, was made for that.
  return found.st_uid == geteuid() || found.st_uid == 0 ? nullptr : "it is another user's";
}

}  // namespace

bool expand_path(const char* path, const char* prefix, char* result, size_t size) {
  const char* name = path;
  for (const char* c = path; *c != 0; ++c) name = *c == '/' ? c + 1 : name;
  size_t n = 0;
  const bool fits = expand(path, name, result, size, n) &&
                    expand(prefix, prefix + __builtin_strlen(prefix), result, size, n) &&
                    expand(name, name + __builtin_strlen(name), result, size, n);
  result[fits ? n : 0] = 0;
  return fits;
}

bool name_temporary(const char* path, char* result, size_t size) {
  constexpr std::string_view kName = ".loft-";
  constexpr size_t kDigits = 16;
  const size_t folder = std::string_view(path).rfind('/') + 1;  // 0 where there is none
  if (folder + kName.size() + kDigits >= size) return false;
  __builtin_memcpy(result, path, folder);
  __builtin_memcpy(result + folder, kName.data(), kName.size());
  char* digit = result + folder + kName.size();
  uint64_t drawn = 0;
  os::random_bytes(&drawn, sizeof(drawn));
  for (size_t i = 0; i < kDigits; ++i, drawn >>= 4) *digit++ = "0123456789abcdef"[drawn & 15];
  *digit = 0;
  return true;
}

bool add_word(char* path, size_t size, const char* word) {
  constexpr std::string_view kEndings[] = {".pb.gz", ".pb", ".gz", ".collapsed"};
  const std::string_view whole = path;
  size_t before = whole.size();
  for (const std::string_view ending : kEndings) {
    if (!whole.ends_with(ending)) continue;
    before = whole.size() - ending.size();
    break;
  }
  const size_t added = __builtin_strlen(word) + 1;
  if (whole.size() + added >= size) return false;
  __builtin_memmove(path + before + added, path + before, whole.size() - before + 1);
  path[before] = '.';
  __builtin_memcpy(path + before + 1, word, added - 1);
  return true;
}

int OutputFile::open(const char* path) {
  const KeepErrno keep;
  struct stat present;
  if (raw::look_at_path(path, &present) == 0 && !S_ISREG(present.st_mode)) {
    return S_ISLNK(present.st_mode) ? ELOOP : S_ISDIR(present.st_mode) ? EISDIR : EEXIST;
  }
  path_ = path;
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY;
  do {
    if (!name_temporary(path, temporary_, sizeof(temporary_))) return ENAMETOOLONG;
    file_ = raw::open_file(temporary_, kFlags, 0600);
  } while (file_ < 0 && (errno == EINTR || errno == EEXIST));
  return file_ < 0 ? errno : 0;
}

int OutputFile::close(int error) {
  const KeepErrno keep;
  raw::close_file(file_);
  if (error == 0 && raw::rename_file(temporary_, path_) != 0) error = errno;
  if (error != 0) raw::remove_file(temporary_);
  return error;
}

int open_to_append(const char* path, const char** why) {
  const KeepErrno keep;
  constexpr int kFlags =
      O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  int file = -1;
  do {
    file = raw::open_file(path, kFlags, 0600);
  } while (file < 0 && errno == EINTR);
  *why = file < 0 ? why_not_open(errno) : why_not_appended(file);
  if (file < 0 || *why == nullptr) return file;
  raw::close_file(file);
  return -1;
}

bool write_at_once(int file, const char* text, size_t bytes) {
  const KeepErrno keep;
  return raw::write_file(file, text, bytes) == static_cast<long>(bytes);
}

void close_output(int file) {
  const KeepErrno keep;
  raw::close_file(file);
}

WithoutSignals::WithoutSignals() {
  sigset_t both;
  sigemptyset(&both);
  sigaddset(&both, SIGPIPE);
  sigaddset(&both, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &both, &before_);
  // A signal that the program keeps off may be pending already, and stays the program's.
  sigemptyset(&ours_);
  for (const int signal : {SIGPIPE, SIGXFSZ}) {
    if (sigismember(&before_, signal) == 0) sigaddset(&ours_, signal);
  }
}

WithoutSignals::~WithoutSignals() {
  const KeepErrno keep;
  sigset_t pending;
  sigemptyset(&pending);
  sigpending(&pending);
  for (const int signal : {SIGPIPE, SIGXFSZ}) {
    if (sigismember(&ours_, signal) == 0 || sigismember(&pending, signal) == 0) continue;
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal);
    take_pending(one);
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

uint64_t wall_clock_ns() {
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

size_t copy_if_there(void* to, uintptr_t from, size_t bytes) {
  const KeepErrno keep;
  const iovec here = {to, bytes};
  const iovec there = {reinterpret_cast<void*>(from), bytes};
  const ssize_t copied = os::call_process_vm_readv(getpid(), &here, &there);
  return copied < 0 ? 0 : static_cast<size_t>(copied);
}

bool path_of_program(char* to, size_t bytes) {
  const KeepErrno keep;
  const ssize_t length = readlink("/proc/self/exe", to, bytes);
  if (length <= 0 || static_cast<size_t>(length) >= bytes) return false;
  to[length] = 0;
  return true;
}

unsigned process_number() { return static_cast<unsigned>(getpid()); }

void* borrow(size_t bytes) {
  bytes = round_up(bytes, os::page_size());
  void* const memory = os::reserve(bytes);
  if (memory == nullptr || os::commit(memory, bytes)) return memory;
  os::unmap(memory, bytes);
  return nullptr;
}

void give_back(void* memory, size_t bytes) {
  if (memory != nullptr) os::unmap(memory, round_up(bytes, os::page_size()));
}

}  // namespace loft::files
