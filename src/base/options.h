// The only table of options. The system's file, the environment (LOFT_NAME), the link-time symbol
// `loft_options`, the API and docs/options.md all follow it. api/option_text.cc parses; lower
// floors only read the values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/macros.h"

namespace loft {

// The most that glibc's malloc keeps without being asked: twice its largest threshold for mappings.
inline constexpr size_t kDirtyBytes = size_t{64} << 20;

enum class OptionKind { kBytes, kMilliseconds, kChoice, kFile, kSignal };

// X(kind, name, default, choices, help). Bytes take the suffixes K, M and G. Milliseconds are a
// plain number. `choices` lists the accepted words; the value is the position of the word. A file
// is a path; the value is the address of a text that never changes, and 0 for none. A signal is a
// number or a name (files/signal_names.h); 0 for none.
#define LOFT_OPTIONS(X)                                                                           \
  X(kChoice, owner, 0, "thread|cpu|shared",                                                       \
    "who holds the caches of free objects, and the slabs; thread: each thread; cpu: each "        \
    "processor; shared: each thread its cache, and all together the slabs; read when the "        \
    "library is loaded, and never changed after that")                                            \
  X(kChoice, hardened, 0, "off|guard|full",                                                       \
    "what loft does against misuse of the heap beyond what costs nothing; off: nothing; "         \
    "guard, for programs in use: what costs little; full: everything that docs/hardened.md "      \
    "lists; read when the library is loaded, and never changed after that")                       \
  X(kChoice, hardened_required, 0, "off|on",                                                      \
    "what happens if hardened=guard or full cannot be kept as the library is loaded; off: "       \
    "one line, and hardened=off; on: one line, and the program stops")                            \
  X(kChoice, stats, 0, "off|text|json|prometheus",                                                \
    "print statistics to standard error when the process exits, also by SIGTERM")                 \
  X(kChoice, misuse, 0, "stop|continue",                                                          \
    "what follows the report of a misuse that the program can survive; stop: it stops; "          \
    "continue: a call with a pointer that loft did not allocate does nothing, the objects "       \
    "after a write after free that has cut a queue of freed objects are lost, and with "          \
    "hardened=guard the page that the program used beyond an object or after its free is "        \
    "opened")                                                                                     \
  X(kFile, report_file, 0, "",                                                                    \
    "a file to which reports of misuse are appended, as well as to standard error; reports "      \
    "then have the stack, and what lies at the address; %p becomes the number of the "            \
    "process")                                                                                    \
  X(kBytes, cache_bytes, 4 << 20, "",                                                             \
    "bytes of free objects that one thread's cache may hold; the caches of more than four "       \
    "threads share four times as many, but each may hold 256K")                                   \
  X(kBytes, dirty_bytes, 64 << 20, "",                                                            \
    "bytes of unused memory that stay resident for reuse, in free spans and in slabs; a free "    \
    "that leaves more purges it at once; from 64M on, an eighth of what is in use if that is "    \
    "more, and more for a while if what was purged is wanted again; less where the control "      \
    "group or the process has little")                                                            \
  X(kMilliseconds, decay_ms, 500, "",                                                             \
    "how long unused memory stays resident before it is purged; what exceeds a quarter of "       \
    "the memory in use stays about a third as long, and what exceeds an eighth half as "          \
    "long; 0: nothing is purged by time")                                                         \
  X(kChoice, thp, 0, "auto|never|prefer",                                                         \
    "whether the system may back the heap with huge pages; auto: one ahead of its use where a "   \
    "heap of 64M and more grows densely and no limit is near; what grows also gets the pages of " \
    "its next objects in one call; never: no, and each page as it is touched; prefer: loft asks " \
    "for them everywhere, and purges nothing smaller")                                            \
  X(kChoice, background, 0, "off|on",                                                             \
    "who purges unused memory; off: the calls that the program makes; on: also a thread of "      \
    "loft's, while the program does nothing; it starts when the library is loaded or the "        \
    "option is set; off in the child of a fork, until it is set there")                           \
  X(kBytes, soft_limit, 0, "",                                                                    \
    "bytes from the system above which loft keeps little: caches stay small, and free "           \
    "memory is purged within a tenth of a second, or by later calls where no background "         \
    "thread runs; 0: no limit")                                                                   \
  X(kBytes, hard_limit, 0, "",                                                                    \
    "bytes from the system that loft does not exceed; a request that would exceed them gets "     \
    "NULL and ENOMEM; 0: no limit")                                                               \
  X(kChoice, cgroup, 1, "off|soft|hard|watch",                                                    \
    "what follows from the limits of the control group that the process is in when the "          \
    "library is loaded; off: nothing; soft: a soft limit; hard: also a hard limit of "            \
    "fifteen sixteenths of the group's; watch: a soft limit, and the thread of background=on "    \
    "reads the limits, memory.high among them, and the usage every second, so that loft keeps "   \
    "little near a limit, whichever process has the memory; it opens files of the system, which " \
    "filters of system calls may forbid; read when the thread starts")                            \
  X(kChoice, profile, 0, "off|on|peak|leaks|waste",                                               \
    "whether allocations are sampled, for a profile of which code holds memory; on: what is "     \
    "in use when the profile is written; peak: what was in use at the highest moment, "           \
    "within three per cent; leaks: what nothing in the process points to any more at the "        \
    "exit; waste: what objects of up to 32 KiB keep from other uses in slabs that are "           \
    "mostly free, at the exit; each sampled object then takes its memory twice, so waste "        \
    "can only follow off")                                                                        \
  X(kBytes, sample_bytes, 512 << 10, "",                                                          \
    "mean bytes between two samples of one thread's allocations, which a profile consists "       \
    "of, and which hardened=guard puts between inaccessible pages; 1: each allocation is "        \
    "one")                                                                                        \
  X(kFile, profile_file, 0, "",                                                                   \
    "where the profile is written when the process exits, also by SIGTERM; %p becomes the "       \
    "number of the process; a name that ends with .collapsed gets lines of text, any other "      \
    "the format of pprof, compressed; when an allocation is refused for want of memory, a file "  \
    "with the word refused in its name is written, too")                                          \
  X(kSignal, profile_signal, 0, "",                                                               \
    "the signal on which the profile so far is written, next to profile_file, with the word "     \
    "signal-1 and so on in the name; loft leaves it alone if the program handles or ignores "     \
    "it")                                                                                         \
  X(kFile, socket, 0, "",                                                                         \
    "where a thread of loft's answers requests of HTTP, for the process's user and for "          \
    "root: statistics, profiles, a map of the heap, purges, options; %p becomes the number "      \
    "of the process; the child of a fork has none until it sets the option")

// X(name, choice). Of these options one choice is stricter than the others: it is taken where
// the file, the symbol or the environment have a value that is not understood, and where the
// file contradicts itself.
#define LOFT_STRICT_CHOICES(X) \
  X(misuse, stop)              \
  X(hardened, full)            \
  X(hardened_required, on)

// The choices of `hardened`. The option is written once, before the program's constructors run.
enum Hardened : uint64_t { kHardenedOff, kHardenedGuard, kHardenedFull };

// The choices of `misuse`.
enum Misuse : uint64_t { kMisuseStop, kMisuseContinue };

// The choices of `owner`. The option is written once, before the program's constructors run.
enum Owner : uint64_t { kOwnerThread, kOwnerCpu, kOwnerShared };

// The choices of `thp`.
enum HugePages : uint64_t { kHugeAuto, kHugeNever, kHugePrefer };

// The choices of `profile`.
enum ProfileOf : uint64_t { kNoProfile, kProfileInUse, kProfilePeak, kProfileLeaks, kProfileWaste };

// The choices of `cgroup`.
enum GroupUse : uint64_t { kGroupOff, kGroupSoft, kGroupHard, kGroupWatch };

struct Options {
#define LOFT_OPTION_FIELD(kind, name, value, choices, help) Atomic<uint64_t> name{value};
  LOFT_OPTIONS(LOFT_OPTION_FIELD)
#undef LOFT_OPTION_FIELD
};

extern LOFT_HIDDEN Options options;

// Relaxed: an option is a number by itself and publishes nothing else. A thread that sees a
// change late acts on the old value.
inline uint64_t get(const Atomic<uint64_t>& option) { return option.load(memory_order_relaxed); }

// The path that an option of kind kFile names; nullptr for none. Acquire pairs with the release
// where it is set: the text is complete.
inline const char* path_of(const Atomic<uint64_t>& option) {
  return reinterpret_cast<const char*>(option.load(memory_order_acquire));
}

}  // namespace loft
