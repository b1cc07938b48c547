// Short names for compiler attributes. Nothing here depends on an architecture.
#pragma once

#define LOFT_LIKELY(x) __builtin_expect(!!(x), 1)
#define LOFT_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define LOFT_NOINLINE __attribute__((noinline))
// For a function that never returns, but shall look as if it did: gcc otherwise finds out, and its
// callers do not end in it.
#if defined(__clang__)
#define LOFT_OPAQUE LOFT_NOINLINE
#else
#define LOFT_OPAQUE __attribute__((noipa))
#endif
#define LOFT_COLD __attribute__((noinline, cold))
// Runs as the library is loaded, and hardly again. These lie side by side, so that a program that
// asks for nothing has few pages of the library (bench/ledger.toml counts them).
#define LOFT_AT_LOAD __attribute__((section(".text.startup")))
#define LOFT_ALWAYS_INLINE inline __attribute__((always_inline))
#define LOFT_EXPORT __attribute__((visibility("default")))

// A function that a program with loft in itself may have, too. Strong in libloft.so, where valgrind
// looks for functions to replace and passes over weak ones.
#if defined(LOFT_OWN_LIBRARY)
#define LOFT_REPLACEABLE LOFT_EXPORT
#else
#define LOFT_REPLACEABLE LOFT_EXPORT __attribute__((weak))
#endif

// For globals that the fast paths read. Without it, a shared library needs one more load to reach
// its own variable.
#define LOFT_HIDDEN __attribute__((visibility("hidden")))

// Emits no instruction. The compiler must assume that the variable has a new value. For an address
// that is used twice, it then keeps base and offset and folds them into both accesses, and spends
// no instruction on their sum.
#define LOFT_FORGET(variable) __asm__("" : "+r"(variable))

// Whether loft is inside a library of somebody else's, which leaves libc's malloc in its place.
#if defined(LOFT_CORE)
inline constexpr bool kLoftCore = true;
#else
inline constexpr bool kLoftCore = false;
#endif

// Thread-local storage: 40 bytes, a pointer, four flags, and when the next sample is due. In the
// initial-exec model it lies in the block that the loader sets up with the thread. An access takes
// two instructions and never allocates. The bytes of one libloft.so fit the reserve that glibc
// keeps for libraries opened with dlopen. Those of many plugins with loft inside need not, and musl
// has no reserve. In the local-dynamic model a library can always be opened. An access asks the
// loader, by a call, unless it is linked into a program: there the linker makes it two
// instructions. A thread's first access may call the C library's malloc. loft holds no lock then:
// each of its calls first asks for the thread's block.
#if defined(LOFT_TLS_LOCAL_DYNAMIC)
#define LOFT_TLS __attribute__((tls_model("local-dynamic")))
#else
#define LOFT_TLS __attribute__((tls_model("initial-exec")))
#endif

// Set in builds for the thread sanitizer and for the address sanitizer, which gcc and clang
// announce differently.
#if defined(__SANITIZE_THREAD__)
#define LOFT_THREAD_SANITIZER 1
#elif defined(__SANITIZE_ADDRESS__)
#define LOFT_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LOFT_THREAD_SANITIZER 1
#elif __has_feature(address_sanitizer)
#define LOFT_ADDRESS_SANITIZER 1
#endif
#endif

namespace loft {

#if defined(LOFT_THREAD_SANITIZER) || defined(LOFT_ADDRESS_SANITIZER)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// Debug builds check the invariants stated beside each struct. Release builds omit the checks.
#if defined(LOFT_DEBUG)
inline constexpr bool kDebug = true;
#else
inline constexpr bool kDebug = false;
#endif

}  // namespace loft
