/// @file
/// loft: a general-purpose memory allocator. Public interface for C and C++.
///
/// The first functions are those of the C library under other names. They are for programs that use
/// loft beside another `malloc`, or that want to name it. The others do what the C library cannot:
/// objects from interior pointers, heaps, statistics, options. A program that links or preloads
/// loft needs none of them: its malloc and operators new are already loft's. Both sets of names
/// share one heap: an object from `malloc` may go to `loft_free` when loft is the process's malloc.
///
/// For every function, unless its own comment differs:
/// - sizes and alignments are bytes, of type size_t;
/// - every object is aligned to at least 16 bytes, whatever its size;
/// - an object of size 0 has its own address and must be freed like any other;
/// - a size above PTRDIFF_MAX, or a lack of memory, gives NULL and errno ENOMEM;
/// - any thread may call at any time, also before main, in constructors and destructors of any
///   kind, in the child of a fork, and on objects of other threads; none is async-signal-safe;
/// - errno changes only on failure.
///
/// Misuse stops the program with one line on standard error, which names the address and the
/// error; loft_set_report_handler adds to it. Misuse is an address that loft did not hand out, an
/// address inside an object, or an object freed twice.

#ifndef LOFT_LOFT_H
#define LOFT_LOFT_H

#include <stddef.h>
#include <stdint.h>

#define LOFT_VERSION_MAJOR 0         ///< changes when the interface changes incompatibly
#define LOFT_VERSION_MINOR 2         ///< grows with new features
#define LOFT_VERSION_PATCH 0         ///< grows with corrections
#define LOFT_VERSION_STRING "0.2.0"  ///< the three as text
/// A number that grows with every release: 10000 * major + 100 * minor + patch.
#define LOFT_VERSION (LOFT_VERSION_MAJOR * 10000 + LOFT_VERSION_MINOR * 100 + LOFT_VERSION_PATCH)

/// @cond
#if defined(__GNUC__)
#define LOFT_ATTRIBUTE(...) __attribute__((__VA_ARGS__))
#else
#define LOFT_ATTRIBUTE(...)
#endif
#ifdef __cplusplus
#define LOFT_NOEXCEPT noexcept
#else
#define LOFT_NOEXCEPT LOFT_ATTRIBUTE(nothrow)
#endif
// A library that contains loft may define it, to show none of loft's names.
#if !defined(LOFT_API)
#define LOFT_API LOFT_ATTRIBUTE(visibility("default"))
#endif
// The result must not be dropped. A fresh one is also reached by no other pointer.
#define LOFT_OBJECT(...) LOFT_API LOFT_ATTRIBUTE(warn_unused_result, __VA_ARGS__)
#define LOFT_FRESH(...) LOFT_OBJECT(malloc, __VA_ARGS__)
/// @endcond

#ifdef __cplusplus
extern "C" {
#endif

// ---- The C library's functions -----------------------------------------------------------------

/// An object of at least `size` bytes; contents undefined.
LOFT_FRESH(alloc_size(1)) void* loft_malloc(size_t size) LOFT_NOEXCEPT;

/// Frees `object`. NULL is allowed and does nothing. Keeps errno.
LOFT_API void loft_free(void* object) LOFT_NOEXCEPT;

/// An array of `count` elements of `size` bytes each, all bytes zero. ENOMEM also if the product
/// overflows.
LOFT_FRESH(alloc_size(1, 2)) void* loft_calloc(size_t count, size_t size) LOFT_NOEXCEPT;

/// Resizes the object to at least `size` bytes, and may move it. Its first min(old, new) bytes are
/// kept. NULL `object`: as loft_malloc. `size` 0 with an object: frees it and returns NULL. On
/// failure, returns NULL and leaves `object` unchanged. The result is aligned to 16 bytes, even if
/// `object` was aligned to more.
LOFT_OBJECT(alloc_size(2)) void* loft_realloc(void* object, size_t size) LOFT_NOEXCEPT;

/// loft_realloc to `count * size` bytes; an overflowing product is ENOMEM and keeps `object`.
LOFT_OBJECT(alloc_size(2, 3))
void* loft_reallocarray(void* object, size_t count, size_t size) LOFT_NOEXCEPT;

/// An object at a multiple of `alignment`, any power of two; `size` need not be a multiple of it.
/// EINVAL if `alignment` is not a power of two.
LOFT_FRESH(alloc_size(2)) void* loft_aligned_alloc(size_t alignment, size_t size) LOFT_NOEXCEPT;

/// Stores such an object in `*object` and returns 0. `alignment` must be a power of two and a
/// multiple of sizeof(void*). On failure, returns EINVAL or ENOMEM and leaves `*object` and errno
/// unchanged.
LOFT_OBJECT() int loft_posix_memalign(void** object, size_t alignment, size_t size) LOFT_NOEXCEPT;

/// As loft_aligned_alloc, but rounds `alignment` up to a power of two. EINVAL if there is none that
/// large.
LOFT_FRESH(alloc_size(2)) void* loft_memalign(size_t alignment, size_t size) LOFT_NOEXCEPT;

/// An object at a page boundary.
LOFT_FRESH(alloc_size(1)) void* loft_valloc(size_t size) LOFT_NOEXCEPT;
/// An object at a page boundary; rounds `size` up to whole pages, and 0 to one page.
LOFT_FRESH() void* loft_pvalloc(size_t size) LOFT_NOEXCEPT;

/// How many bytes of `object` the program may use: at least as many as it requested. 0 for NULL.
LOFT_API size_t loft_malloc_usable_size(const void* object) LOFT_NOEXCEPT;

/// Purges all free memory, except about `pad` bytes and the caches of other threads. Returns 1 if
/// any memory went back to the system, otherwise 0.
LOFT_API int loft_malloc_trim(size_t pad) LOFT_NOEXCEPT;

/// What loft_purge could not reach.
typedef struct loft_unreached_t {
  uint64_t threads;  ///< other threads with objects in their caches, which only they can empty
  uint64_t bytes;    ///< approximate bytes in these caches
} loft_unreached_t;

/// Purges all free memory: that of the caller, of ended threads and of no thread, and whole free
/// pages in the slabs of all threads, except in heaps that are at work at that moment. Other
/// threads keep their caches, whether they run or sleep. `*unreached` tells how much these hold; it
/// may be NULL. Returns the bytes that went back to the system.
LOFT_API uint64_t loft_purge(loft_unreached_t* unreached) LOFT_NOEXCEPT;

/// For event loops, before a wait that may be long. Empties the caches of the calling thread: their
/// objects return to their heaps, and free pages to the system. No other thread can do that for a
/// sleeping thread. The thread may use loft again at once, without loft_idle_end. Does nothing
/// where processors have the caches (owner=cpu).
LOFT_API void loft_idle_begin(void) LOFT_NOEXCEPT;
/// After the wait. Need not be called.
LOFT_API void loft_idle_end(void) LOFT_NOEXCEPT;

/// Starts a thread of loft's own that purges unused memory while the program does nothing, as the
/// option background=on does; loft never starts one unasked. It runs until the process ends, or its
/// first thread does by itself. The child of a fork has none until it calls this. Any thread may
/// call it, at any time. Returns 0 also if the thread runs already; EPERM after the end of the
/// process's first thread; EAGAIN if the system gives none now.
LOFT_API int loft_background_start(void) LOFT_NOEXCEPT;

/// C23: loft_free for a caller that knows the size: the last one that was requested for the object,
/// of loft_malloc, loft_calloc (the product), loft_realloc or loft_expand; or any size whose
/// loft_good_size was requested. A wrong value is undefined behaviour. It is no faster than
/// loft_free. With hardened=full, another size stops the program; with hardened=guard, one that
/// does not fit the object's place. NULL is allowed.
LOFT_API void loft_free_sized(void* object, size_t size) LOFT_NOEXCEPT;
/// C23: the same for an object of loft_aligned_alloc, loft_aligned_calloc or loft_aligned_realloc,
/// with the alignment that was requested. The hardened modes check that, too.
LOFT_API void loft_free_aligned_sized(void* object, size_t alignment, size_t size) LOFT_NOEXCEPT;

// ---- Sizes, resizing in place, alignment -------------------------------------------------------

/// The largest size that takes no more memory than `size` bytes: what loft_malloc_usable_size says
/// of an object of `size` bytes, or, with hardened=full, of one for which this is requested. A
/// container that grows may round its capacity up to it. Bytes; at least `size`, and `size` itself
/// above PTRDIFF_MAX, where the allocation will fail. Size 0 counts as 1. Costs a few instructions,
/// and depends on nothing but the option `hardened` and the size of a page. An object of a thread's
/// first calls may have more, up to a whole cache line.
LOFT_API size_t loft_good_size(size_t size) LOFT_NOEXCEPT;
/// The same for an object of loft_aligned_alloc. `size` itself if `alignment` is no power of two.
LOFT_API size_t loft_aligned_good_size(size_t alignment, size_t size) LOFT_NOEXCEPT;

/// Gives `object` another size, larger or smaller, where it is. It never moves, and nothing is
/// copied. Returns 1, and the object's size is `size` from then on (for loft_free_sized, too); or
/// 0, and nothing has changed. Keeps errno. NULL gives 0; size 0 counts as 1.
///
/// - Up to 32 KiB: 1 if `size` lies between half of the usable size and all of it. Takes no lock.
/// - Above that: shrinks by whole pages, whose memory goes back in time, and grows into free pages
///   behind the object, if there are any: above 4 MiB often, below that less so. Takes a lock, and
///   for each granule of 64 KiB some nanoseconds. An object of up to 4 MiB that another thread
///   allocated gets no pages and keeps its own.
/// - For objects of heaps of the program's own: as loft_heap_expand.
///
/// loft_realloc does the same first, and moves the object otherwise. One thread at a time may
/// resize an object, and none may use bytes beyond its new size.
LOFT_API int loft_expand(void* object, size_t size) LOFT_NOEXCEPT;

/// As loft_aligned_alloc, for `count` elements of `size` bytes each, all bytes zero. Memory that is
/// known to be zero, fresh from the system or purged, is not cleared: mostly that of objects above
/// 4 MiB, and some from 4 KiB on. ENOMEM also if the product overflows.
LOFT_FRESH(alloc_size(2, 3))
void* loft_aligned_calloc(size_t alignment, size_t count, size_t size) LOFT_NOEXCEPT;

/// As loft_realloc, for a result at a multiple of `alignment`, any power of two, whatever `object`
/// was aligned to. NULL `object`: as loft_aligned_alloc. Objects above 4 MiB are not copied up to
/// an alignment of 64 KiB: their pages move. EINVAL if `alignment` is not a power of two.
LOFT_OBJECT(alloc_size(3))
void* loft_aligned_realloc(void* object, size_t alignment, size_t size) LOFT_NOEXCEPT;

// ---- Objects from interior pointers ------------------------------------------------------------

/// The start of the object in which `interior` lies. NULL for an address in no object. A small
/// object may be free: the caller must know that the object is allocated, and stays so.
LOFT_API void* loft_object_start(const void* interior) LOFT_NOEXCEPT;
/// The usable size of that object; 0 for an address in no object.
LOFT_API size_t loft_object_size(const void* interior) LOFT_NOEXCEPT;

/// Stops the program, with a report that names `call`, if `bytes` bytes from `at` on begin in an
/// object of loft's and do not end in it. With hardened=full an object has the bytes that were
/// asked for, and a freed one has none; otherwise it has its usable size. Ranges outside of the
/// heap are not looked at. For what copies and fills memory: libloft-bounds.so does so for libc's
/// functions.
LOFT_API void loft_check_bounds(const char* call, const void* at, size_t bytes) LOFT_NOEXCEPT;

// ---- All objects -------------------------------------------------------------------------------

/// Called for an object, with the `context` that was given and the object's usable size. Another
/// result than 0 ends the visit. It may allocate and free, also the object.
typedef int (*loft_visit_t)(void* context, void* object, size_t usable);

/// Visits every object that the program has, in the order of addresses: those of malloc and of
/// heaps over ordinary memory, but none that lies in a region. What is visited is what there was
/// when the call began, without what was freed since. Returns the number of visits. Without memory
/// for the list (a 128th of the heap), 0 with errno ENOMEM.
///
/// It is exact if no other thread is in a call of loft meanwhile: in a program of one thread, or
/// where the others wait. Where others allocate and free, objects that they have in hand at that
/// moment may be left out, and free ones visited; none of them may use a heap of the program's own
/// meanwhile. A thread that was stopped within a call of loft may hold a lock, for which the visit
/// would wait.
LOFT_API size_t loft_visit_objects(loft_visit_t visit, void* context) LOFT_NOEXCEPT;

// ---- Heaps of one's own -------------------------------------------------------------------------

/// A heap of the program's own, which is destroyed whole. Over ordinary memory it grows on demand,
/// and gives back unneeded memory. Over a region of the caller's (shared memory, memory of a
/// device, or pinned for one) it hands out addresses in that region. Its metadata lies elsewhere:
/// loft never reads or writes the region, nor asks the system to do anything with it. Exceptions:
/// loft_heap_calloc clears its object, and loft_heap_realloc copies an object that it must move.
///
/// Any thread may use a heap, and free objects that others allocated there. No other call on a heap
/// may run beside or after loft_heap_destroy. Each call takes a lock. A heap over ordinary memory
/// gets several locks when threads meet at them. After a fork, each process has its own copy of the
/// heap: over memory that they share, only one of them may use it.
///
/// `free`, `realloc`, `malloc_usable_size`, `operator delete` and the functions above accept
/// objects of heaps over ordinary memory. Only the loft_heap_ functions accept objects in a region,
/// even if the region was itself allocated from loft.
typedef struct loft_heap_t loft_heap_t;

/// A heap over ordinary memory. NULL and ENOMEM without memory for it.
LOFT_OBJECT() loft_heap_t* loft_heap_create(void) LOFT_NOEXCEPT;

/// A heap over [region, region + bytes). It uses a part whose address and length are multiples of
/// 256 bytes. The region stays the caller's: it must outlive the heap, and two heaps must not share
/// any of it. The metadata takes a 64th of its length in address space, and memory as far as
/// objects need it. EINVAL if `region` is NULL, wraps around, or has less than 256 usable bytes.
LOFT_OBJECT() loft_heap_t* loft_heap_create_over(void* region, size_t bytes) LOFT_NOEXCEPT;

/// Frees the heap with all its objects. A region stays as it is, for the caller to use. NULL is
/// allowed and does nothing.
LOFT_API void loft_heap_destroy(loft_heap_t* heap) LOFT_NOEXCEPT;

// As the functions of the C library, for objects of this heap. An object of another heap stops the
// program.

/// As loft_malloc. In a region, ENOMEM means that there is no room.
LOFT_FRESH(alloc_size(2)) void* loft_heap_malloc(loft_heap_t* heap, size_t size) LOFT_NOEXCEPT;
/// As loft_calloc.
LOFT_FRESH(alloc_size(2, 3))
void* loft_heap_calloc(loft_heap_t* heap, size_t count, size_t size) LOFT_NOEXCEPT;
/// As loft_aligned_alloc.
LOFT_FRESH(alloc_size(3))
void* loft_heap_aligned_alloc(loft_heap_t* heap, size_t alignment, size_t size) LOFT_NOEXCEPT;
/// As loft_realloc. Resizes objects above 1 KiB in place if possible. In a region, no object that
/// shrinks moves.
LOFT_OBJECT(alloc_size(3))
void* loft_heap_realloc(loft_heap_t* heap, void* object, size_t size) LOFT_NOEXCEPT;
/// As loft_aligned_calloc. In a region, the object is cleared.
LOFT_FRESH(alloc_size(3, 4))
void* loft_heap_aligned_calloc(loft_heap_t* heap, size_t alignment, size_t count,
                               size_t size) LOFT_NOEXCEPT;
/// As loft_aligned_realloc. An object stays in place where loft_heap_realloc would leave it, if it
/// is aligned; no pages move.
LOFT_OBJECT(alloc_size(4))
void* loft_heap_aligned_realloc(loft_heap_t* heap, void* object, size_t alignment,
                                size_t size) LOFT_NOEXCEPT;
/// As loft_expand. An object of up to 1 KiB gets any size up to its usable size. A longer one gives
/// up, or takes, 256 bytes at a time of the free memory behind it. One with pages to itself stays
/// as it is: 1 if it fits. Takes a lock.
LOFT_API int loft_heap_expand(loft_heap_t* heap, void* object, size_t size) LOFT_NOEXCEPT;
/// As loft_good_size, for this heap, which depends on its kind. Where its room is scarce, an object
/// may have more.
LOFT_API size_t loft_heap_good_size(const loft_heap_t* heap, size_t size) LOFT_NOEXCEPT;
/// As loft_free, for an object of this heap. An object of another heap stops the program.
LOFT_API void loft_heap_free(loft_heap_t* heap, void* object) LOFT_NOEXCEPT;
/// As loft_free_sized, for any object of this heap, aligned or not. In both hardened modes, a size
/// above the usable size stops the program.
LOFT_API void loft_heap_free_sized(loft_heap_t* heap, void* object, size_t size) LOFT_NOEXCEPT;
/// As loft_malloc_usable_size.
LOFT_API size_t loft_heap_usable_size(const loft_heap_t* heap, const void* object) LOFT_NOEXCEPT;

/// 1 if `address` lies in memory that the heap has at the moment, in an object or not; otherwise 0.
/// Any address is allowed.
LOFT_API int loft_heap_contains(const loft_heap_t* heap, const void* address) LOFT_NOEXCEPT;

/// As loft_visit_objects, for the objects of this heap, also in a region. Other threads may use
/// malloc meanwhile, but not this heap.
LOFT_API size_t loft_heap_visit_objects(const loft_heap_t* heap, loft_visit_t visit,
                                        void* context) LOFT_NOEXCEPT;

/// Statistics of one heap of the program's own.
typedef struct loft_heap_stats_t {
  uint64_t struct_size;     ///< as in loft_stats_t
  uint64_t live_objects;    ///< allocated and not freed
  uint64_t live_bytes;      ///< usable bytes of these
  uint64_t capacity_bytes;  ///< of the region, or of the memory that the heap has from the system
  uint64_t metadata_bytes;  ///< loft's tables for it; those of a long region are mostly untouched
} loft_heap_stats_t;

/// As loft_stats, for one heap.
LOFT_API int loft_heap_stats(const loft_heap_t* heap, loft_heap_stats_t* stats) LOFT_NOEXCEPT;

// ---- Version, options --------------------------------------------------------------------------

/// LOFT_VERSION of the running library, for comparison with the header's.
LOFT_API int loft_version(void) LOFT_NOEXCEPT;

// Options, by falling precedence: loft_option_set; the environment, LOFT_NAME=value; the symbol
// below; the default. docs/options.md lists them. Byte counts take a suffix K, M or G. The
// library's constructor reads the environment and the symbol. It ignores the environment of a
// program with more rights than its user (setuid and the like), and paths in the symbol. A value
// that is not accepted is reported on standard error, and the option keeps its old value.

/// Options of a program, fixed when it is linked: "name=value,name=value". The library's own
/// definition is weak and NULL. A program overrides it by its own definition. (A program that has
/// loft preloaded, and does not link it, must export the symbol: -rdynamic.)
extern LOFT_API const char* loft_options;

/// Sets one option from text. Returns 0; or ENOENT for an unknown name, EINVAL for a value that the
/// option does not accept, EPERM for `owner`, which is read once, when the library is loaded. Takes
/// effect at the next event that the option governs. May run beside any other call. For `socket`,
/// it returns when the socket is there, or is gone; one line on standard error says why it cannot
/// be.
LOFT_API int loft_option_set(const char* name, const char* value) LOFT_NOEXCEPT;

/// Writes the option's value, as text with a closing NUL, to `value`, which holds `size` bytes.
/// Byte counts have no suffix. Returns 0; or ENOENT for an unknown name, ERANGE if the text does
/// not fit.
LOFT_API int loft_option_get(const char* name, char* value, size_t size) LOFT_NOEXCEPT;

// ---- Reports of misuse -------------------------------------------------------------------------

/// Called with a report of misuse: `bytes` bytes of text with a NUL behind them, which are gone
/// when it returns. docs/internals/reports.md says what they mean.
typedef void (*loft_report_t)(const char* text, size_t bytes, void* closure);

/// Has `handler` called with each report, after it was written to standard error and to the file of
/// the option report_file; NULL: nobody. Then the program stops as ever, or goes on if the option
/// misuse=continue says so.
///
/// The thread that made the mistake calls it, or with hardened=full a thread of loft's own that
/// found its traces, inside of a call of malloc, free or another one: any lock of loft may be held.
/// The handler must not allocate or free, nor wait for a thread that does: where it waits for
/// itself, the process ends after three seconds. What a signal handler may call it may call, too.
/// It has to return. A mistake within it ends the process, without it.
///
/// Reports have a stack from this call on, where libloft-inspect.so is beside loft. It may allocate
/// and load code, so call it at the start of the program. Two threads must not call it at the same
/// time; a report that another thread makes meanwhile goes to the old handler, to the new one, or
/// to none.
LOFT_API void loft_set_report_handler(loft_report_t handler, void* closure) LOFT_NOEXCEPT;

/// Called with what loft says: `bytes` bytes of text with a NUL behind them, which are gone when it
/// returns. Mostly one line, which ends with a newline. A report comes in two parts: what is known
/// before the stack is followed, and the rest.
typedef void (*loft_message_t)(const char* text, size_t bytes, void* closure);

/// Has `handler` called with all that loft would write to standard error, and nothing is written
/// there any more: warnings, reports of misuse, and the statistics of the option `stats` and of
/// malloc_stats. NULL: as before. Statistics are one text of many lines. What loft says before the
/// call, as of options that it does not accept, has gone to standard error.
///
/// Any thread calls it, and several may at once, inside of a call of malloc, free or another one:
/// any lock of loft may be held. So the rules of loft_set_report_handler hold: it must not allocate
/// or free, nor wait for a thread that does. It may write to a file, or to memory that is there.
/// With the options `socket` or `cgroup=watch`, threads of loft's own call it, too, which have none
/// of the program's open files: a descriptor of the program's is none there, or loft's own.
/// What loft says because of the handler itself goes to standard error. The handler must stay until
/// the process ends, or until it was set back and no thread is in it. With both, this one gets a
/// report first.
///
/// Two threads must not call it at the same time. What loft says meanwhile in another thread goes
/// to the old handler, to the new one, or to standard error.
LOFT_API void loft_set_message_handler(loft_message_t handler, void* closure) LOFT_NOEXCEPT;

// ---- Profile ----------------------------------------------------------------------------------

/// Writes the profile that the option `profile` has taken so far to the file `path`, in which %p
/// stands for the number of the process: lines of text if the name ends with .collapsed, otherwise
/// the format of pprof, compressed. Returns 0; or an error number: of the system, ENOMEM, or
/// ENODATA if `profile` was never on; or ELIBACC where libloft-inspect.so is not beside loft, which
/// a line has said when `profile` was set. The file takes its name once it is whole, in place of
/// the file that had it; a symbolic link, and all that is no regular file, is refused. Any thread
/// may call it at any time, also in a signal handler.
LOFT_API int loft_profile_write(const char* path) LOFT_NOEXCEPT;

// ---- Statistics --------------------------------------------------------------------------------

/// Reading them waits for no thread and allocates nothing. A thread that makes or destroys a heap
/// of the program's own at the same moment waits until these heaps are summed up. Each number is
/// right for some moment of the call. Sums may differ a little while other threads run. Some fields
/// count events since the process started: those from slabs_created to adoptions, soft_limit_hits,
/// hard_limit_refusals, and those from checked_frees on, except cores. All others describe the
/// present. docs/internals/accounting.md explains them.
typedef struct loft_stats_t {
  uint64_t struct_size;  ///< in: sizeof(loft_stats_t); out: how many bytes the library filled

  uint64_t heaps;             ///< heaps that exist, parked ones included
  uint64_t heaps_parked;      ///< heaps whose thread has ended and that no thread has adopted
  uint64_t threads_attached;  ///< threads that have a cache now; 0 where processors have the caches

  uint64_t allocated_bytes;  ///< objects handed out or ready in caches and batches; large included
  uint64_t large_bytes;      ///< large objects handed out
  uint64_t slab_bytes;       ///< slabs, whatever the state of their objects
  uint64_t metadata_bytes;   ///< loft's own tables, in use
  uint64_t committed_bytes;  ///< memory that may be resident: slabs, large objects, dirty spans,
                             ///< tables, in use or not, and heaps of the program's own, except
                             ///< regions
  uint64_t dirty_bytes;      ///< free spans, spare slabs among them, that may be resident
  uint64_t purged_bytes;     ///< free spans without memory, mapped or not

  uint64_t slabs_created;   ///< slabs cut from spans
  uint64_t slabs_released;  ///< slabs that became empty and were released

  uint64_t refills;  ///< caches filled from a heap
  uint64_t flushes;  ///< caches emptied in part, into a heap and batches
  uint64_t drains;   ///< inboxes drained that held messages

  uint64_t batches_sent;       ///< batches put into an outbox, and objects that went alone
  uint64_t batch_objects;      ///< objects in them
  uint64_t batch_messages;     ///< messages (carriers) that hold them
  uint64_t posts;              ///< atomic exchanges, one per destination, that posted messages
  uint64_t forwards;           ///< messages received for another heap and passed on
  uint64_t messages_received;  ///< messages that reached their heap
  uint64_t objects_received;   ///< objects in these messages
  uint64_t turnarounds;        ///< objects of other heaps, kept by the thread that freed them
  uint64_t locks_taken;        ///< locks of heaps and of shared tables

  uint64_t large_allocations;  ///< large objects handed out
  uint64_t large_cache_hits;   ///< of these, served from the cache of free spans
  uint64_t os_maps;            ///< calls that mapped memory
  uint64_t os_purges;          ///< calls that gave memory back

  uint64_t threads_started;  ///< threads that got a thread cache
  uint64_t threads_exited;   ///< threads that gave their cache back
  uint64_t adoptions;        ///< parked heaps adopted by a new thread

  uint64_t user_heaps;       ///< heaps of the program's own (loft_heap_create) that exist now
  uint64_t user_heap_bytes;  ///< objects in them now
  /// committed_bytes counts against the first two limits. The numbers of the control group are as
  /// last read: at load, or, with cgroup=watch, within the last second.
  uint64_t soft_limit_bytes;     ///< in force now, 0 for none
  uint64_t hard_limit_bytes;     ///< in force now, 0 for none
  uint64_t group_limit_bytes;    ///< the group's limit that is nearest to being met; 0 for none
  uint64_t group_used_bytes;     ///< usage that counts against it, of all the group's processes; 0
                                 ///< unless cgroup=watch
  uint64_t soft_limit_hits;      ///< times that a soft limit, or one of the group, was met
  uint64_t hard_limit_refusals;  ///< requests that got NULL because of the hard limit

  /// The accounting identity: the parts of the heap's resident memory. Always, to the byte,
  ///
  ///     resident_bytes == live_bytes + rounding_bytes + free_in_slabs_bytes + cached_bytes
  ///                       + in_flight_bytes + large_cached_bytes + free_span_bytes
  ///                       + metadata_resident_bytes + purged_charged_bytes
  ///                       + user_heap_resident_bytes + huge_slack_bytes - untouched_bytes
  ///
  /// The left side comes from the system, for the addresses below. The parts come from loft's own
  /// counters. The last two parts are the difference, one in each direction. The library's static
  /// data and the background thread's stack are not included. The system takes about a millisecond
  /// for each resident GiB. It is not asked if the caller's struct ends before these fields.
  uint64_t resident_bytes;
  uint64_t live_bytes;               ///< requested by the program, and not freed
  uint64_t rounding_bytes;           ///< space of objects beyond their requests. Exact for large
                                     ///< objects. For small ones, only the sum of the two is exact;
                                     ///< one request in each refill gives an estimate of the parts
  uint64_t free_in_slabs_bytes;      ///< on pages of slabs that hold an object, or did
  uint64_t cached_bytes;             ///< small objects in thread caches
  uint64_t in_flight_bytes;          ///< small objects in batches, outboxes and inboxes
  uint64_t large_cached_bytes;       ///< large objects in caches, of threads or between them
  uint64_t free_span_bytes;          ///< free spans that are still resident
  uint64_t metadata_resident_bytes;  ///< loft's own tables, the pagemap among them, and what a
                                     ///< profile needs beside the objects
  uint64_t purged_charged_bytes;     ///< free spans that the system refused to take back
  uint64_t user_heap_resident_bytes;  ///< heaps of the program's own, except regions
  uint64_t huge_slack_bytes;          ///< resident because the rest of a huge page is in use
  uint64_t untouched_bytes;  ///< in the parts above, but not resident: never written by the
                             ///< program, or swapped out

  uint64_t huge_page_bytes;  ///< of resident_bytes, in huge pages; 0 where the system does not say
  uint64_t live_objects;     ///< handed out and not freed; large ones included
  uint64_t address_begin;    ///< everything counted here lies in [address_begin, address_end)
  uint64_t address_end;      ///< most of it is not mapped, and some may be the program's mappings

  uint64_t checked_frees;        ///< frees into a young bin, each of which is checked
  uint64_t bins_grown;           ///< bins that got a longer array
  uint64_t bins_released;        ///< unused bins that gave up their array
  uint64_t batches_evicted;      ///< batches sent before they were full, for lack of a place
  uint64_t objects_sent_singly;  ///< objects sent without a batch
  uint64_t heaps_helped;         ///< inboxes drained by a refill of another heap
  uint64_t hole_bytes;           ///< purged from partly used slabs
  uint64_t spans_acquired;       ///< spans taken, by slabs and large objects
  uint64_t spans_released;       ///< spans released
  uint64_t large_resizes;        ///< large objects given other pages by realloc, without a copy
  uint64_t large_moves;          ///< of these, by moving their pages
  uint64_t caches_emptied;       ///< times that a cache was emptied: by loft_idle_begin, or because
                                 ///< its processor was idle
  uint64_t background_ticks;     ///< rounds over unused memory, by slow paths or by loft's thread
  uint64_t locks_waited_for;     ///< of locks_taken, those that were found held

  uint64_t cores;        ///< processors that have a cache (owner=cpu)
  uint64_t core_fences;  ///< times that a fence closed the cache of another processor

  uint64_t slabs_taken_over;  ///< slabs that a heap took from another: an unused heap, or one with
                              ///< too many
  uint64_t background_threads;  ///< threads of loft's own that purge unused memory: 0 or 1
} loft_stats_t;

/// Fills `*stats` up to `struct_size`, which the caller has set. A program built against a smaller
/// struct than the library's gets the fields that it knows. One with a larger struct learns from
/// `struct_size` where the filled part ends. Returns 0; or EINVAL if `struct_size` leaves no room
/// for any field.
LOFT_API int loft_stats(loft_stats_t* stats) LOFT_NOEXCEPT;

/// What the calling thread has done so far.
typedef struct loft_thread_stats_t {
  uint64_t struct_size;  ///< in: sizeof(loft_thread_stats_t); out: how many bytes were filled

  int64_t net_bytes;  ///< of the objects that the thread has allocated, less those of the objects
                      ///< that it has freed; below zero where it frees what others have allocated
} loft_thread_stats_t;

/// Fills `*stats` up to `struct_size`, as loft_stats does. Exact, while malloc and free count
/// nothing: the sum follows from what the thread's heap has handed out and what lies in its caches.
/// Takes no lock. The difference of two calls in a thread is what the code in between has kept, or
/// given up.
///
/// An object counts with its place: its usable size, with hardened=off and without a profile. It
/// counts when it is resized, too. Objects of heaps of the program's own do not count. A thread
/// begins at 0 with its first call of loft; with hardened=guard or full, the first thread does so
/// when the library is loaded.
///
/// Returns 0; EINVAL if `struct_size` leaves no room for any field; or ENOTSUP where threads have
/// no heaps of their own (owner=cpu or shared).
LOFT_API int loft_thread_stats(loft_thread_stats_t* stats) LOFT_NOEXCEPT;

/// The identity of one size class, and its events. A field of loft_stats_t of the same name is the
/// sum of these over all classes. Exceptions: free_bytes is part of free_in_slabs_bytes, and large
/// objects in caches are large_cached_bytes there.
///
///     resident_bytes == live_bytes + rounding_bytes + free_bytes + cached_bytes + in_flight_bytes
///                       + huge_slack_bytes - untouched_bytes
typedef struct loft_class_stats_t {
  uint64_t object_bytes;  ///< size of an object of the class; 0: large objects

  uint64_t live_objects;      ///< handed out and not freed
  uint64_t resident_bytes;    ///< according to the system
  uint64_t live_bytes;        ///< requested by the program, and not freed
  uint64_t rounding_bytes;    ///< space of objects beyond their requests
  uint64_t free_bytes;        ///< on pages of slabs that have memory
  uint64_t cached_bytes;      ///< in thread caches
  uint64_t in_flight_bytes;   ///< in batches, outboxes and inboxes
  uint64_t huge_slack_bytes;  ///< resident because the rest of a huge page is in use
  uint64_t untouched_bytes;   ///< in the parts above, but not resident
  uint64_t slabs;             ///< that exist now

  // Events; 0 for large objects.
  uint64_t slabs_created;     ///< slabs cut from spans
  uint64_t slabs_released;    ///< slabs that became empty and were released
  uint64_t refills;           ///< of caches
  uint64_t objects_refilled;  ///< handed out by slabs
  uint64_t objects_flushed;   ///< returned by the threads that own the slabs
  uint64_t objects_sent;      ///< freed by other threads
  uint64_t objects_received;  ///< of these, back in their slabs
} loft_class_stats_t;

/// Fills up to `count` elements of `classes`: the size classes, smallest first, then the large
/// objects. `size` is the caller's sizeof(loft_class_stats_t). Fields of a larger struct beyond the
/// library's are zero. Returns the number of classes. Costs as much as loft_stats.
LOFT_API size_t loft_stats_classes(loft_class_stats_t* classes, size_t count,
                                   size_t size) LOFT_NOEXCEPT;

/// The forms of statistics as text.
typedef enum loft_stats_format_t {
  LOFT_STATS_TEXT,        ///< tables for people
  LOFT_STATS_JSON,        ///< one line: the fields of loft_stats_t, and those of each class
  LOFT_STATS_PROMETHEUS,  ///< text exposition, version 0.0.4
} loft_stats_format_t;

/// Writes both structs to a file descriptor as text, without the addresses. Allocates nothing.
/// Returns 0, or the error of the write; EINVAL for an unknown format.
LOFT_API int loft_stats_write(int file, loft_stats_format_t format) LOFT_NOEXCEPT;

/// Writes the same to memory, as snprintf does: at most `size` bytes, the last of them a NUL.
/// Returns the length of the whole text without the NUL; 0 for an unknown format.
LOFT_API size_t loft_stats_print(char* text, size_t size, loft_stats_format_t format) LOFT_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif  // LOFT_LOFT_H
