// The system floor on Windows, function by function: linked with the single file.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#include "os/lock.h"
#include "os/os.h"
#include "os/own_thread.h"
#include "os/residency.h"
#include "os/windows_placed.h"
#include "os/windows_ranges.h"

namespace {

namespace os = loft::os;
constexpr size_t kStep = 64 * 1024;
constexpr uintptr_t kFree = uintptr_t{5} << 40;  // where nothing lies

void expect(bool true_, const char* what, int line) {
  if (true_) return;
  printf("line %d: %s\n", line, what);
  fflush(stdout);
  _exit(1);
}
#define EXPECT(condition) expect(condition, #condition, __LINE__)

char* at(size_t steps) { return reinterpret_cast<char*>(kFree + steps * kStep); }
bool place(size_t steps, size_t count) {
  return os::place(at(steps), count * kStep) == os::Placed::kYes;
}
bool reads_zero(size_t steps, size_t count) {
  for (const char* p = at(steps); p != at(steps + count); ++p) {
    if (*p != 0) return false;
  }
  return true;
}
DWORD state(size_t step) {
  MEMORY_BASIC_INFORMATION found;
  VirtualQuery(at(step), &found, sizeof(found));
  return found.State;
}

void parts() {
  SetLastError(4711);
  EXPECT(place(0, 4) && place(4, 4));
  EXPECT(os::place(at(2), kStep) == os::Placed::kOccupied);
  EXPECT(os::place(at(7), 2 * kStep) == os::Placed::kOccupied);
  memset(at(0), 1, 8 * kStep);
  // Across the border of two allocations, and half of each: nothing of either can be released.
  EXPECT(os::unmap(at(2), 4 * kStep));
  EXPECT(state(1) == MEM_COMMIT && state(2) == MEM_RESERVE && state(6) == MEM_COMMIT);
  EXPECT(*at(1) == 1 && *at(6) == 1);
  EXPECT(os::is_no_other_memory(at(3)));
  EXPECT(place(3, 2) && reads_zero(3, 2));
  EXPECT(os::unmap(at(0), 8 * kStep));
  for (size_t step = 0; step < 8; ++step) EXPECT(state(step) == MEM_FREE);
  // In pieces: the addresses go with the last.
  EXPECT(place(0, 4) && os::unmap(at(0), kStep) && os::unmap(at(2), 2 * kStep));
  EXPECT(state(0) == MEM_RESERVE && os::unmap(at(1), kStep) && state(0) == MEM_FREE);
  EXPECT(GetLastError() == 4711);
}

void others() {
  // Another's reservation is nobody's memory, and still not loft's.
  void* const other = VirtualAlloc(at(2), kStep, MEM_RESERVE, PAGE_NOACCESS);
  EXPECT(other == at(2));
  EXPECT(os::place(at(0), 4 * kStep) == os::Placed::kOccupied);
  EXPECT(state(0) == MEM_FREE && !os::is_no_other_memory(at(2)));
  EXPECT(place(0, 2) && place(3, 1));
  VirtualFree(other, 0, MEM_RELEASE);
  EXPECT(place(2, 1) && os::unmap(at(0), 4 * kStep) && state(2) == MEM_FREE);
}

void contents() {
  EXPECT(place(0, 2) && place(2, 2));
  memset(at(0), 1, 4 * kStep);
  EXPECT(os::discard(at(1), 2 * kStep));
  EXPECT(reads_zero(1, 2) && *at(0) == 1 && *at(3) == 1);
  EXPECT(os::discard(at(3) + 4096, 4096) && at(3)[4096] == 0 && at(3)[8192] == 1);
  EXPECT(os::renew(at(0), kStep, true) && state(0) == MEM_RESERVE);
  EXPECT(os::renew(at(0), 4 * kStep) && reads_zero(0, 4));
  *at(1) = 1;
  os::Residency residency;
  residency.begin(kFree, kFree + 4 * kStep);
  const size_t resident = residency.until(kFree + 4 * kStep).resident;
  EXPECT(resident >= 4096 && resident <= 4 * kStep);
  EXPECT(os::unmap(at(0), 4 * kStep));
  EXPECT(os::place_zeros(at(0), kStep) && reads_zero(0, 1) && os::unmap(at(0), kStep));
  char* const reserved = static_cast<char*>(os::reserve(3 * kStep));
  EXPECT(reserved != nullptr && os::commit(reserved + kStep, kStep));
  reserved[kStep] = 1;
  EXPECT(os::unmap(reserved, 3 * kStep));
  EXPECT(os::has_memory_for(4096) && !os::has_memory_for(size_t{1} << 60));
  void* const beyond = reinterpret_cast<void*>(uintptr_t{1} << 50);  // no address of a process
  EXPECT(os::place(beyond, kStep) == os::Placed::kNoMemory);
}

void ranges() {
  static os::Ranges list;
  for (uintptr_t i = 0; i < 256; ++i) EXPECT(list.add(i * 100, i * 100 + 50));
  EXPECT(!list.add(99900, 99950) && !list.remove(10, 20));  // full
  EXPECT(list.add(50, 100) && list.count() == 255 && list.contain(0, 150));
  EXPECT(list.remove(20, 120) && list.count() == 256);
  EXPECT(list.contain(0, 20) && !list.contain(0, 21) && list.contain(120, 150));
  EXPECT(list.remove(0, 20) && !list.contain(0, 1) && list.count() == 255);
}

loft::Atomic<uint32_t> word{0};
loft::Atomic<uint32_t> ended{0};
loft::Atomic<uint32_t> own_word{0};
os::OwnThread own("loft-tested", own_word, {0, 1, 2, 3}, [] {
  while (own_word.load() == 1) os::wait_on_word(&own_word, 1);
});

void waits() {
  const uint64_t before = os::now_ns();
  os::wait_on_word_for(&word, 0, 20'000'000);
  EXPECT(os::now_ns() - before > 10'000'000);
  os::wait_on_word(&word, 1);  // is another already
  const auto wait = [](void*) -> DWORD {
    os::set_thread_exit_value(&word);
    while (word.load() == 0) os::wait_on_word(&word, 0);
    return 0;
  };
  const HANDLE thread = CreateThread(nullptr, 0, wait, nullptr, 0, nullptr);
  word.store(1);
  os::wake_one(&word);
  WaitForSingleObject(thread, INFINITE);
  EXPECT(os::thread_exit_value() == nullptr || os::thread_exit_value() != &word);
  EXPECT(own.start([] { return true; }) && own_word.load() == 1);
  own.stop();
  EXPECT(own_word.load() == 0 && own.start([] { return true; }));
  own.end();
  EXPECT(own_word.load() == 3 && !own.start([] { return true; }));
}

void process() {
  EXPECT(os::page_size() == 4096);
  EXPECT(os::processors() != 0 && os::processor() < os::processor_numbers());
  uint64_t drawn[2] = {};
  os::random_bytes(drawn, sizeof(drawn));
  EXPECT(drawn[0] != 0 && drawn[0] != drawn[1]);
  SetEnvironmentVariableA("LOFT_TESTED", "later");
  const char* const set = os::environment("LOFT_TEST_SET");
  EXPECT(set != nullptr && strcmp(set, "yes") == 0);
  EXPECT(os::environment("LOFT_TEST_SE") == nullptr);
  EXPECT(os::thread_number() != 0);
  errno = 0;
  EXPECT(os::out_of_memory() == nullptr && errno == ENOMEM);
}

}  // namespace

int main() {
  ranges();
  parts();
  others();
  contents();
  waits();
  process();
  puts("ok");
  return 0;
}
