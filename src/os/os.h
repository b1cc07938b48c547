// What loft asks of a system, and all of it: a port is as many files beside linux*.cc. No function
// here allocates through malloc, and none of them changes errno unless it says so.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/macros.h"

namespace loft::os {

// Bytes in a page; read at run time, the same binary serves 4, 16 and 64 KiB pages.
size_t page_size();

// Address space without memory behind it: any access faults. Page-aligned; nullptr when refused.
// For tables of a region's length, and to see where the system has room, not for the heap.
void* reserve(size_t bytes);
// Of memory or address space. False, and everything as it was, if the process may have no more
// mappings.
bool unmap(void* at, size_t bytes);

// Makes reserved address space readable and writable; it reads as zero. False without memory.
bool commit(void* at, size_t bytes);

// Puts zeroed, readable and writable memory at exactly [at, at + bytes), page-aligned, which
// nothing may be mapped in.
enum class Placed {
  kYes,
  kNoMemory,  // or an address that the machine does not have
  kOccupied,  // another mapping is there
};
Placed place(void* at, size_t bytes);

// As above, but only to be read, and without a claim on memory even where the system refuses to
// promise more than it has.
bool place_zeros(void* at, size_t bytes);

// Whether the system would give so much memory now. It may have changed its mind a moment later.
bool has_memory_for(size_t bytes);

// Maps a committed range anew, empty, as one with its neighbours. False without memory: then the
// range may be a hole, where others may be placed.
bool renew(void* at, size_t bytes);

// Whether the system may (or shall) put huge pages behind a range; a wish that it may ignore.
void allow_huge_pages(void* at, size_t bytes, bool allow);

// Gives the memory behind writable pages back at once; they stay mapped and read as zero.
// MADV_DONTNEED rather than MADV_FREE: resident size then says what is true. False, and the memory
// as it was, where the system refuses, as it does for locked pages, and where it says yes and does
// nothing: sandboxes and emulators do. So each call is checked, by the first byte of the range.
bool discard(void* at, size_t bytes);

// Moves the pages of [from, from + bytes) to [to, to + bytes), replacing what is mapped there. The
// source range stays mapped and reads as zero: nobody else can be placed there. False, and nothing
// moved, when the system refuses; then [to, to + bytes) may be a hole.
bool move_pages(void* from, void* to, size_t bytes);
bool can_move_pages();  // false once the system has said that it knows no such move; no hole then

// Whether the system can be asked for a long range of addresses to see where it would put it: not
// under an emulator that pays for every page of a mapping, resident or not.
bool may_try_long_mappings();

// Of bytes or processors.
inline constexpr size_t kNoLimit = SIZE_MAX;

// Bytes of addresses that the process may have (RLIMIT_AS).
size_t address_space_limit();

// The group of processes that this one is in, where the system limits groups as a whole (Linux:
// control groups, of either version), and the groups around it, whose limits bind it too.
struct Group {
  size_t high = kNoLimit;  // bytes above which the system takes memory from the group, and slows it
  size_t max = kNoLimit;   // bytes that the group cannot have: it is stopped instead
  // Of all limits of bytes, the one that is nearest to being met, and what counts against it. What
  // the system drops without a loss when it needs to, as it does with files that it has read, is
  // left out as soon as half of the limit is used.
  size_t limit = kNoLimit;
  size_t used = 0;
  size_t processors = kNoLimit;  // as many as the group's share of time would keep busy, rounded up
};

// Finds out about the group. Opens files: not for a thread that shares its table of them with a
// program that runs. `root` stands before every path, for tests.
class GroupReader {
 public:
  explicit GroupReader(const char* root = "") : root_(root) {}

  // `last`: what was found before, maybe by another reader. Its limits hold on where those of today
  // cannot be read, as long as there may be some; what is used is then not known, and 0.
  Group read(const Group& last = Group());

 private:
  static constexpr size_t kLongestPath = 1024;

  // Where the groups of a version are to be seen, with the root, and the group that is to be seen
  // there itself.
  struct Mount {
    bool found = false;
    char path[kLongestPath];
    char group[kLongestPath];
  };

  void find_mounts();
  bool look(Group& group);
  bool look_along(unsigned version, const char* usual_place, const char* path, Group& group);

  const char* root_;
  Mount mounts_[2];  // of version 1, as far as it limits memory, and of version 2
};

// Processors that the process's first thread may run on; 0 if the system does not say.
size_t processors();

// Lets the calling thread run on that processor alone. False, and nothing changed, if it may not.
bool run_on(uint64_t processor);

// A set of processors.
class ProcessorSet {
 public:
  void read();  // those that the calling thread may run on
  bool operator==(const ProcessorSet& other) const;
  size_t count() const;  // 0 if the system did not say
  void apply() const;    // lets the calling thread run on these alone, as far as the system permits

 private:
  size_t bytes_ = 0;
  unsigned long words_[128] = {};
};

// A number that differs from process to process, for places that an attacker should not know.
uint64_t entropy();

// nullptr when unset or before the C library is up; and in a program that may more than whoever has
// started it (setuid, setgid, file capabilities), whose environment is not to be trusted.
const char* environment(const char* name);
void write_error(const char* text, size_t bytes);
int write_all(int file, const char* text, size_t bytes);  // 0, or the error it met
// Handlers of SIGABRT run, once in each thread, and may allocate: where that needs a lock that the
// caller holds (fork needs all), the process ends after three seconds.
[[noreturn]] void abort_process();

// Nanoseconds of a clock that never goes back.
uint64_t now_ns();

// The processor that the caller runs on: a small number, and only a hint.
unsigned processor();

// One more than the highest number that `processor` can ever return; 0 if the system does not say.
unsigned processor_numbers();

// Threads by the system's number for them.
int thread_number();  // the caller's
// Processor time that a thread of this process has had so far; 0 if the system does not say.
uint64_t thread_time_ns(int number);

// For a thread of loft's own: gives it a table of file descriptors of its own, empty, so that
// neither what it opens nor what the program closes disturbs the other. False where the system
// cannot do that.
bool leave_files();

// `hook` runs when a thread that has called set_thread_exit_value(non-null) ends, after the
// thread-local destructors of the program as far as the system lets us choose. False: no more keys.
bool on_thread_exit(void (*hook)(void*));
bool set_thread_exit_value(void* value);  // false: the hook will not run for this thread
void* thread_exit_value();                // nullptr if none was set

void on_fork(void (*prepare)(), void (*parent)(), void (*child)());

// Sleep while *word == expected / wake one sleeper. Spurious returns are allowed.
void wait_on_word(const void* word, uint32_t expected);
void wake_one(const void* word);
void wait_on_word_for(const void* word, uint32_t expected, uint64_t nanoseconds);
void pause_briefly();  // inside a spin
void doze();           // sleeps for a moment, so that threads of any priority run

// Calls made so far, for statistics.
struct Calls {
  unsigned long maps;      // that mapped or moved memory
  unsigned long discards;  // that gave memory back
};
Calls calls();

// Keeps errno as the caller had it across a scope.
class KeepErrno {
 public:
  KeepErrno();
  ~KeepErrno();
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;

 private:
  int saved_;
};

void* out_of_memory();  // sets errno to ENOMEM, returns nullptr

}  // namespace loft::os
