// What loft asks of Linux. No function here allocates through malloc. No function changes errno
// unless its comment says so.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/macros.h"

namespace loft::os {

// Bytes in a page. It is read at run time: the same binary serves 4, 16 and 64 KiB pages.
// Relaxed: every thread finds the same number.
extern LOFT_HIDDEN Atomic<size_t> known_page_size;  // 0 until the first call, before any heap
size_t page_size();

// Reserves address space without memory: any access faults. The result is page-aligned, or nullptr
// if the system refuses. For tables as long as a region, and to find where the system has room. Not
// for the heap.
void* reserve(size_t bytes);
// Unmaps memory or address space. If the process may have no more mappings, returns false and
// changes nothing.
bool unmap(void* at, size_t bytes);

// Makes reserved address space readable and writable. It reads as zero. False without memory.
bool commit(void* at, size_t bytes);

// Maps zeroed, readable and writable memory at exactly [at, at + bytes), which is page-aligned.
// Fails if anything is mapped there.
enum class Mapped {
  kYes,
  kNoMemory,  // or an address that the machine does not have
  kOccupied,  // another mapping is there
};
Mapped map_at(void* at, size_t bytes);

// As map_at, but read-only. It claims no memory, even where the kernel refuses to overcommit.
bool map_zeros_at(void* at, size_t bytes);

// Whether the system would map that much memory now, and whether it would grant it to a program
// that means to use all of it: where it overcommits by its own judgement, it may refuse that. The
// answer may be out of date at once.
bool has_room_for(size_t bytes);
bool has_memory_for(size_t bytes);

// Closes a committed range to any access, and gives its memory back. `commit` opens it. False
// without mappings: it is as before. Unlike `renew`, this leaves no hole. `is_zero`: there is no
// memory to give back.
bool close(void* at, size_t bytes, bool is_zero = false);

// Maps a committed range again, empty: as one mapping with its neighbours, or closed to any access,
// and then it counts nowhere. False without memory or mappings: it may then be a hole, in which
// other code may map memory, so that nothing of the range may be used or mapped again. Nothing
// tells how much of it was unmapped: that depends on the kernel's age, and on what it ran out of.
bool renew(void* at, size_t bytes, bool closed = false);

// Advises the system about a range: against huge pages or for them, to split those that lie partly
// in it, to give memory to all its pages now, to take back that of pages which read as zero. False
// if it refuses; it may also ignore the advice.
enum class Advice : uint8_t { kNoHugePages, kHugePages, kSplit, kPopulate, kAllZero };
bool advise(void* at, size_t bytes, Advice advice);

// Returns the memory behind writable pages to the system at once. The pages stay mapped and read as
// zero. MADV_DONTNEED, not MADV_FREE, keeps the resident size accurate. Returns false and leaves
// the memory as it was if the system (a) refuses, as it does for locked pages; or (b) reports
// success and does nothing, as sandboxes and emulators do. The first byte of the range tells. With
// kNone the caller has a proof elsewhere (space/discards.h); emulators get none.
enum class Proof : uint8_t { kByte, kNone };
bool discard(void* at, size_t bytes, Proof proof = Proof::kByte);

// Moves the pages of [from, from + bytes) to [to, to + bytes) and replaces any mapping there. The
// source range stays mapped and reads as zero, so nothing else can be mapped there. If the system
// refuses, returns false and moves nothing; [to, to + bytes) may then be a hole.
bool move_pages(void* from, void* to, size_t bytes);
// False once the system has reported that it cannot move; then a refusal leaves no hole. `several`:
// the pages lie in more than one mapping, which Linux moves from 6.17 on.
bool can_move_pages(bool several);

// Whether loft may map a long range of addresses to see where the system places it. Not under an
// emulator that pays for every page of a mapping, resident or not.
bool may_try_long_mappings();

// Whether mappings are resident before they are touched (mlockall), or none is to be had.
bool locks_mappings();

// No limit, of bytes or of processors.
inline constexpr size_t kNoLimit = SIZE_MAX;

// Bytes of address space that the process may have (RLIMIT_AS).
size_t address_space_limit();

// Processors that the process's first thread may run on. 0 if the system does not say.
size_t processors();

// Bytes that nobody can foresee, nor tell from others that the process holds: an attacker should
// not know the addresses and the secrets that follow from them.
void random_bytes(void* to, size_t bytes);

// Whether the program has more rights than the user who started it (setuid, setgid, file
// capabilities): neither its environment nor its folder is to be trusted.
bool has_more_rights();

// Calls visit(context, "NAME=value") for each variable whose name begins with the prefix. None does
// (a) before the C library is initialised; (b) in a program with more rights than its user.
void visit_environment(const char* prefix, void (*visit)(void*, const char*), void* context);
void write_error(const char* text, size_t bytes);
int write_all(int file, const char* text, size_t bytes);  // returns 0 or the error
// Handlers of SIGABRT run, once in each thread, and may allocate. If a handler needs a lock that
// the caller holds (fork needs all locks), the process ends after three seconds.
[[noreturn]] void abort_process();
// This thread is ending the process: never reset, because a handler of SIGABRT may delay the end.
// Or it is in a handler of the program's (files/handler.cc). While it is set, a wait of three
// seconds ends the process, and so does a second fault.
extern LOFT_HIDDEN LOFT_TLS __thread bool at_fault;

// Nanoseconds of a clock that never goes back.
uint64_t now_ns();

// The processor that the caller runs on: a small number. Only a hint.
unsigned processor();
// One more than the highest number that `processor` can ever return. 0 if the system does not say.
unsigned processor_numbers();

// The system's number of the calling thread.
int thread_number();
// Whether the caller is the process's first thread; false where it is not known.
bool is_first_thread();

// `hook` runs at the end of each thread that has called set_thread_exit_value(non-null). It runs
// after the program's thread-local destructors, as far as the system permits a choice. False if no
// key is left.
bool on_thread_exit(void (*hook)(void*));
bool set_thread_exit_value(void* value);  // false: the hook will not run for this thread
void* thread_exit_value();                // nullptr if none was set

void on_fork(void (*prepare)(), void (*parent)(), void (*child)());

// wait_on_word sleeps while *word == expected. wake_one wakes one sleeper. Spurious returns are
// allowed.
void wait_on_word(const void* word, uint32_t expected);
void wake_one(const void* word);
void wait_on_word_for(const void* word, uint32_t expected, uint64_t nanoseconds);
void pause_briefly();  // for use inside a spin
void doze();           // sleeps for a moment, so that threads of any priority can run

// System calls made so far, for statistics.
struct Calls {
  size_t maps;      // calls that mapped, unmapped, protected or moved memory
  size_t discards;  // calls that returned memory to the system
};
Calls calls();

void* out_of_memory();  // sets errno to ENOMEM, returns nullptr

}  // namespace loft::os
