// Compiler attributes under short names. Nothing here depends on a system or an architecture.
#pragma once

#define LOFT_LIKELY(x) __builtin_expect(!!(x), 1)
#define LOFT_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define LOFT_NOINLINE __attribute__((noinline))
#define LOFT_COLD __attribute__((noinline, cold))
#define LOFT_ALWAYS_INLINE inline __attribute__((always_inline))
#define LOFT_EXPORT __attribute__((visibility("default")))

// On globals that the fast paths read: without it a shared library reaches its own variable through
// one more load.
#define LOFT_HIDDEN __attribute__((visibility("hidden")))

// Emits nothing; the compiler forgets what it knew about the value of a variable. Where an address
// is used twice, it then keeps base and offset and folds them into both accesses, instead of
// spending an instruction on their sum.
#define LOFT_FORGET(variable) __asm__("" : "+r"(variable))

// Thread-local storage in the block that the loader sets up with the thread: an access is two
// instructions and can never allocate. A pointer and a flag, 16 bytes, always fit the reserve that
// the loader keeps for libraries that arrive by dlopen.
#define LOFT_TLS_INITIAL_EXEC __attribute__((tls_model("initial-exec")))

// Whether this is a build for the thread sanitizer, in either compiler's words.
#if defined(__SANITIZE_THREAD__)
#define LOFT_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LOFT_THREAD_SANITIZER 1
#endif
#endif

namespace loft {

// Debug builds verify the invariants written beside each struct; release builds compile them away.
#if defined(LOFT_DEBUG)
inline constexpr bool kDebug = true;
#else
inline constexpr bool kDebug = false;
#endif

}  // namespace loft
