// Probes that tracers find in the executable (USDT): perf, bpftrace, gdb, and what else reads ELF
// notes of the kind `stapsdt`. A probe is one nop, and a note that names its address, a provider,
// a name and where its arguments are. While nobody traces, nothing more happens: arguments must be
// values that are at hand. No header of a tracer's is needed.
//
// Names are part of what loft promises (docs/profiles.md): arguments are only added, at the end.
#pragma once

#include <cstdint>

#include "base/macros.h"

namespace loft {

// All arguments are words of eight bytes.
LOFT_ALWAYS_INLINE uint64_t probe_word(uint64_t number) { return number; }
LOFT_ALWAYS_INLINE uint64_t probe_word(const void* p) { return reinterpret_cast<uintptr_t>(p); }

}  // namespace loft

#if defined(__x86_64__) || defined(__aarch64__)

// The note: lengths of its two parts and its type, the owner, and in the description the address of
// the nop, that of .stapsdt.base (by which tools notice that a prelinker moved the code), and no
// semaphore. "?" puts it into the group of the function's section, with which the linker may drop
// it.
#define LOFT_PROBE_NOTE(provider, name, places)                           \
  "990: nop\n"                                                            \
  ".pushsection .note.stapsdt,\"?\",\"note\"\n"                           \
  ".balign 4\n"                                                           \
  ".4byte 992f-991f, 994f-993f, 3\n"                                      \
  "991: .asciz \"stapsdt\"\n"                                             \
  "992: .balign 4\n"                                                      \
  "993: .8byte 990b, _.stapsdt.base, 0\n"                                 \
  ".asciz \"" #provider "\", \"" #name "\", \"" places                    \
  "\"\n"                                                                  \
  "994: .balign 4\n"                                                      \
  ".popsection\n"                                                         \
  ".ifndef _.stapsdt.base\n"                                              \
  ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
  ".weak _.stapsdt.base\n"                                                \
  ".hidden _.stapsdt.base\n"                                              \
  "_.stapsdt.base: .space 1\n"                                            \
  ".size _.stapsdt.base, 1\n"                                             \
  ".popsection\n"                                                         \
  ".endif\n"

#define LOFT_PROBE1(provider, name, a) \
  __asm__ volatile(LOFT_PROBE_NOTE(provider, name, "8@%0") : : "r"(::loft::probe_word(a)))
#define LOFT_PROBE2(provider, name, a, b)                       \
  __asm__ volatile(LOFT_PROBE_NOTE(provider, name, "8@%0 8@%1") \
                   :                                            \
                   : "r"(::loft::probe_word(a)), "r"(::loft::probe_word(b)))
#define LOFT_PROBE3(provider, name, a, b, c)                                 \
  __asm__ volatile(LOFT_PROBE_NOTE(provider, name, "8@%0 8@%1 8@%2")         \
                   :                                                         \
                   : "r"(::loft::probe_word(a)), "r"(::loft::probe_word(b)), \
                     "r"(::loft::probe_word(c)))

#else

#define LOFT_PROBE1(provider, name, a) static_cast<void>(a)
#define LOFT_PROBE2(provider, name, a, b) (static_cast<void>(a), static_cast<void>(b))
#define LOFT_PROBE3(provider, name, a, b, c) \
  (static_cast<void>(a), static_cast<void>(b), static_cast<void>(c))

#endif
