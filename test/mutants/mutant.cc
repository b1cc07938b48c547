// Reads which mutant is alive, and where the tool wants to know of those that are reached.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

namespace loft::mutants {

int alive = 0;
unsigned char* reached = nullptr;

namespace {

[[gnu::constructor(101)]] void begin_mutants() {
  if (const char* number = getenv("MUTANT")) alive = atoi(number);
  const char* path = getenv("MUTANTS_REACHED");
  if (path == nullptr) return;
  const int file = open(path, O_RDWR | O_CLOEXEC);
  struct stat told;
  if (file < 0 || fstat(file, &told) != 0) abort();
  void* map =
      mmap(nullptr, static_cast<size_t>(told.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (map == MAP_FAILED) abort();
  close(file);
  reached = static_cast<unsigned char*>(map);
}

}  // namespace
}  // namespace loft::mutants
