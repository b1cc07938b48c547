#include "files/output.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/keep_errno.h"
#include "os/os.h"

namespace loft::files {

bool expand_path(const char* path, char* result, size_t size) {
  size_t n = 0;
  for (; *path != 0 && n + 1 < size; ++path) {
    if (path[0] == '%' && path[1] == 'p') {
      char digits[20];
      size_t count = 0;
      for (unsigned number = process_number(); number != 0 || count == 0; number /= 10) {
        digits[count++] = static_cast<char>('0' + number % 10);
      }
      if (n + count >= size) return false;
      while (count != 0) result[n++] = digits[--count];
      ++path;
    } else {
      if (path[0] == '%' && path[1] == '%') ++path;
      result[n++] = *path;
    }
  }
  result[n] = 0;
  return *path == 0;
}

int open_output(const char* path, int* error) {
  const KeepErrno keep;
  int file = -1;
  do {
    file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0600);
  } while (file < 0 && errno == EINTR);
  if (file < 0) *error = errno;
  return file;
}

void close_output(int file) {
  const KeepErrno keep;
  close(file);
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
  const ssize_t copied = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
  return copied < 0 ? 0 : static_cast<size_t>(copied);
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
