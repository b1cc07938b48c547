#include "files/output.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <string_view>

#include "base/bits.h"
#include "base/keep_errno.h"
#include "base/text.h"
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

int open_output(const char* path, int* error) {
  const KeepErrno keep;
  int file = -1;
  do {
    file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
  } while (file < 0 && errno == EINTR);
  if (file < 0) *error = errno;
  return file;
}

void close_output(int file) {
  const KeepErrno keep;
  close(file);
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
    // It is pending, so this does not wait.
    int taken = 0;
    sigwait(&one, &taken);
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

uint64_t wall_clock_ns() {
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
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
