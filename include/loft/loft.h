/// @file
/// loft: a general-purpose memory allocator. Public interface for C and C++.
///
/// The functions here are the ones of the C library under other names, for programs that use loft
/// beside another `malloc` or want to name it; and what the C library has no name for: objects from
/// interior pointers, statistics, options. A program that links or preloads loft needs none of
/// them: its malloc and operators new are loft's already. Both sets of names share one heap: an
/// object from `malloc` may go to `loft_free` when loft is the process's malloc.
///
/// Said once, true of every function unless its own comment differs:
/// - sizes and alignments are bytes, of type size_t;
/// - every object is aligned to 16 bytes at least, whatever its size;
/// - an object of size 0 has an address of its own and is to be freed like any other;
/// - a size above PTRDIFF_MAX, and memory that cannot be had, give NULL and errno ENOMEM;
/// - any thread may call at any time, also before main, in constructors and destructors of any
///   kind, in the child of a fork, and on objects of other threads; none is async-signal-safe;
/// - errno changes only on failure.
///
/// An address that loft did not hand out, an address inside an object, or an object freed twice
/// stops the program with one line on standard error that names the address and what is wrong with
/// it.

#ifndef LOFT_LOFT_H
#define LOFT_LOFT_H

#include <stddef.h>
#include <stdint.h>

#define LOFT_VERSION_MAJOR 0         ///< changes with what a program may rely on
#define LOFT_VERSION_MINOR 1         ///< grows with what is new
#define LOFT_VERSION_PATCH 0         ///< grows with what is mended
#define LOFT_VERSION_STRING "0.1.0"  ///< the three as text
/// One number that grows with every release: 10000 * major + 100 * minor + patch.
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
#define LOFT_API LOFT_ATTRIBUTE(visibility("default"))
// The result must not be dropped; and of these, some are fresh: reached by no other pointer.
#define LOFT_OBJECT(...) LOFT_API LOFT_ATTRIBUTE(warn_unused_result, __VA_ARGS__)
#define LOFT_FRESH(...) LOFT_OBJECT(malloc, __VA_ARGS__)
/// @endcond

#ifdef __cplusplus
extern "C" {
#endif

// ---- The C library's functions -----------------------------------------------------------------

/// An object of at least `size` bytes; contents undefined.
LOFT_FRESH(alloc_size(1)) void* loft_malloc(size_t size) LOFT_NOEXCEPT;

/// Gives `object` back; NULL is allowed and does nothing. Keeps errno.
LOFT_API void loft_free(void* object) LOFT_NOEXCEPT;

/// An array of `count` elements of `size` bytes each, all bytes zero. ENOMEM also when the product
/// overflows.
LOFT_FRESH(alloc_size(1, 2)) void* loft_calloc(size_t count, size_t size) LOFT_NOEXCEPT;

/// The object with its first min(old, new) bytes, now of at least `size` bytes, perhaps at another
/// address. NULL `object`: as loft_malloc. `size` 0 with an object: frees it and returns NULL. On
/// failure NULL, and `object` stays as it was. The result is aligned to 16 bytes, even if `object`
/// was aligned to more.
LOFT_OBJECT(alloc_size(2)) void* loft_realloc(void* object, size_t size) LOFT_NOEXCEPT;

/// loft_realloc to `count * size` bytes; an overflowing product is ENOMEM and keeps `object`.
LOFT_OBJECT(alloc_size(2, 3))
void* loft_reallocarray(void* object, size_t count, size_t size) LOFT_NOEXCEPT;

/// An object at a multiple of `alignment`, any power of two; `size` need not be a multiple of it.
/// EINVAL if `alignment` is not a power of two.
LOFT_FRESH(alloc_size(2)) void* loft_aligned_alloc(size_t alignment, size_t size) LOFT_NOEXCEPT;

/// Stores such an object in `*object` and returns 0; `alignment` must be a power of two and a
/// multiple of sizeof(void*). Otherwise returns EINVAL or ENOMEM and leaves `*object` and errno as
/// they were.
LOFT_OBJECT() int loft_posix_memalign(void** object, size_t alignment, size_t size) LOFT_NOEXCEPT;

/// As loft_aligned_alloc, but rounds an alignment that is no power of two up to one; EINVAL if
/// there is none as large.
LOFT_FRESH(alloc_size(2)) void* loft_memalign(size_t alignment, size_t size) LOFT_NOEXCEPT;

/// An object at a page boundary.
LOFT_FRESH(alloc_size(1)) void* loft_valloc(size_t size) LOFT_NOEXCEPT;
/// An object at a page boundary; rounds `size` up to whole pages, and 0 to one page.
LOFT_FRESH() void* loft_pvalloc(size_t size) LOFT_NOEXCEPT;

/// How many bytes of `object` the program may use: at least what it asked for. 0 for NULL.
LOFT_API size_t loft_malloc_usable_size(const void* object) LOFT_NOEXCEPT;

/// Gives free memory back to the system, keeping about `pad` bytes of it ready: all that is free,
/// except what the caches of other threads hold. 1 if any was given back, else 0.
LOFT_API int loft_malloc_trim(size_t pad) LOFT_NOEXCEPT;

/// What loft_purge could not reach.
typedef struct loft_unreached_t {
  uint64_t threads;  ///< other threads that hold something: a cache is its thread's alone
  uint64_t bytes;    ///< about what their caches held
} loft_unreached_t;

/// Gives back to the system all memory that is free: what the caller holds, what threads that have
/// ended and no thread at all hold, and whole free pages of the slabs of all threads (except of
/// those that are at work there just then). Other threads keep their caches, whether they run or
/// sleep; `*unreached` tells how much that is (NULL: not wanted). Returns the bytes that were given
/// back.
LOFT_API uint64_t loft_purge(loft_unreached_t* unreached) LOFT_NOEXCEPT;

/// For event loops, before a wait that may be long. Empties the caches of the calling thread: the
/// objects in them return to their heaps, and free pages to the system. No other thread does that
/// for a thread that sleeps. The thread may use loft at once again, without loft_idle_end. Where
/// processors have the caches (owner=core), it does nothing.
LOFT_API void loft_idle_begin(void) LOFT_NOEXCEPT;
/// After the wait. It need not be called.
LOFT_API void loft_idle_end(void) LOFT_NOEXCEPT;

/// C23: loft_free for a caller that knows the size it asked for. A wrong value is undefined
/// behaviour.
LOFT_API void loft_free_sized(void* object, size_t size) LOFT_NOEXCEPT;
/// C23: the same for a caller that knows the alignment as well.
LOFT_API void loft_free_aligned_sized(void* object, size_t alignment, size_t size) LOFT_NOEXCEPT;

// ---- Objects from interior pointers ------------------------------------------------------------

/// The start of the object in whose bytes `interior` lies. NULL for an address that is in no
/// object. A small object may be a free one: loft tells where objects lie, and leaves it to the
/// caller to know that this one is, and stays, allocated.
LOFT_API void* loft_object_start(const void* interior) LOFT_NOEXCEPT;
/// The usable size of that object; 0 for an address that is in no object.
LOFT_API size_t loft_object_size(const void* interior) LOFT_NOEXCEPT;

// ---- Heaps of one's own -------------------------------------------------------------------------

/// A heap that the program makes, gives its objects out of, and destroys whole. Over ordinary
/// memory it grows as it needs to, and gives back what it no longer needs. Over a region of the
/// caller's (shared memory, memory of a device, or pinned for one) it hands out addresses in that
/// region and keeps all it knows about them elsewhere: loft itself never reads or writes a byte of
/// the region, nor asks the system to do anything with it. (What must touch it: loft_heap_calloc,
/// which clears the object, and loft_heap_realloc where it has to move one.)
///
/// Any thread may use a heap, and free what others allocated there; destroying it comes after
/// everything else. Each call takes a lock; a heap over ordinary memory comes by several locks when
/// threads meet at them. After a fork both processes have the heap, each its own from then on: over
/// memory that they share, one of them must leave it alone.
///
/// `free`, `realloc`, `malloc_usable_size`, `operator delete` and the functions above know objects
/// of heaps over ordinary memory; objects in a region belong to the loft_heap_ functions alone, and
/// so does whatever lies in a region that was itself allocated from loft.
typedef struct loft_heap_t loft_heap_t;

/// NULL and ENOMEM without memory for it.
LOFT_OBJECT() loft_heap_t* loft_heap_create(void) LOFT_NOEXCEPT;

/// Over [region, region + bytes), of which multiples of 256 bytes, in place and length, are used.
/// The region is the caller's: it outlives the heap, and two heaps must not share any of it. To
/// describe it costs a 64th of its length in address space, and of memory what objects need. EINVAL
/// if `region` is NULL, if it wraps around, or if not even 256 bytes of it can be used.
LOFT_OBJECT() loft_heap_t* loft_heap_create_over(void* region, size_t bytes) LOFT_NOEXCEPT;

/// Frees all objects of the heap at once, and the heap. A region is the caller's again, untouched.
/// NULL is allowed and does nothing.
LOFT_API void loft_heap_destroy(loft_heap_t* heap) LOFT_NOEXCEPT;

// As the functions of the C library, for objects of this heap; another heap's stop the program.

/// As loft_malloc. In a region, ENOMEM says that there is no room.
LOFT_FRESH(alloc_size(2)) void* loft_heap_malloc(loft_heap_t* heap, size_t size) LOFT_NOEXCEPT;
/// As loft_calloc.
LOFT_FRESH(alloc_size(2, 3))
void* loft_heap_calloc(loft_heap_t* heap, size_t count, size_t size) LOFT_NOEXCEPT;
/// As loft_aligned_alloc.
LOFT_FRESH(alloc_size(3))
void* loft_heap_aligned_alloc(loft_heap_t* heap, size_t alignment, size_t size) LOFT_NOEXCEPT;
/// As loft_realloc. Grows and shrinks objects above 1 KiB where they are if it can, and does not
/// move any that shrinks in a region.
LOFT_OBJECT(alloc_size(3))
void* loft_heap_realloc(loft_heap_t* heap, void* object, size_t size) LOFT_NOEXCEPT;
/// As loft_free, for an object of this heap; another heap's stops the program.
LOFT_API void loft_heap_free(loft_heap_t* heap, void* object) LOFT_NOEXCEPT;
/// As loft_malloc_usable_size.
LOFT_API size_t loft_heap_usable_size(const loft_heap_t* heap, const void* object) LOFT_NOEXCEPT;

/// 1 if `address`, which may be any, lies in memory that the heap has at the moment, in an object
/// or not; else 0.
LOFT_API int loft_heap_contains(const loft_heap_t* heap, const void* address) LOFT_NOEXCEPT;

/// Of one heap that the program has made.
typedef struct loft_heap_stats_t {
  uint64_t struct_size;     ///< as in loft_stats_t
  uint64_t live_objects;    ///< allocated and not freed
  uint64_t live_bytes;      ///< usable bytes of these
  uint64_t capacity_bytes;  ///< of the region, or of what the heap has taken from the system
  uint64_t metadata_bytes;  ///< loft's own tables about it; those of a long region mostly untouched
} loft_heap_stats_t;

/// As loft_stats, for one heap.
LOFT_API int loft_heap_stats(const loft_heap_t* heap, loft_heap_stats_t* stats) LOFT_NOEXCEPT;

// ---- Version, options --------------------------------------------------------------------------

/// LOFT_VERSION of the library that runs, for comparison with the header's.
LOFT_API int loft_version(void) LOFT_NOEXCEPT;

// Options, by falling precedence: loft_option_set; the environment, LOFT_NAME=value; the symbol
// below; the default. docs/options.md lists them. Byte counts take a suffix K, M or G. Environment
// and symbol are read when the library's constructor runs, the environment not in a program with
// more rights than its user (setuid and the like); a value that is not accepted is reported on
// standard error, and the option keeps what it had.

/// Options of a program, fixed when it is linked: "name=value,name=value". The library's own
/// definition is weak and NULL; a program that defines the symbol overrides it. (A program that
/// does not link loft but has it preloaded must export the symbol: -rdynamic.)
extern LOFT_API const char* loft_options;

/// Sets one option from text. 0; or ENOENT for an unknown name, EINVAL for a value that the option
/// does not accept, EPERM for `owner`, which is read once, when the library is loaded. Takes effect
/// when what it governs next happens. Safe beside everything else.
LOFT_API int loft_option_set(const char* name, const char* value) LOFT_NOEXCEPT;

/// Writes the option's value, as text with a closing NUL, to `value`, which holds `size` bytes;
/// byte counts without suffix. 0; or ENOENT for an unknown name, ERANGE when the text does not fit.
LOFT_API int loft_option_get(const char* name, char* value, size_t size) LOFT_NOEXCEPT;

// ---- Statistics --------------------------------------------------------------------------------

/// Reading them waits for no thread and allocates nothing. A thread that makes or destroys a heap
/// of the program's own at the same moment waits until these are summed up. Each number is right
/// for some moment of the call; threads that run meanwhile may make sums differ a little. These
/// fields count events since the process started: those from slabs_created to adoptions,
/// soft_limit_hits, hard_limit_refusals, and those from checked_frees on, except cores and
/// room_ahead_bytes. All others tell how things are now. docs/accounting.md says how to read them.
typedef struct loft_stats_t {
  uint64_t struct_size;  ///< in: sizeof(loft_stats_t); out: how many bytes the library filled

  uint64_t heaps;             ///< heaps that exist, parked ones included
  uint64_t heaps_parked;      ///< heaps whose thread has exited, waiting for a next one
  uint64_t threads_attached;  ///< threads that have a thread cache now; none where processors do

  uint64_t allocated_bytes;  ///< objects handed out or ready in caches and batches; large included
  uint64_t large_bytes;      ///< large objects handed out
  uint64_t slab_bytes;       ///< slabs, whatever their objects do
  uint64_t metadata_bytes;   ///< loft's own tables, in use
  uint64_t committed_bytes;  ///< what may be resident: slabs, large objects, dirty spans, tables,
                             ///< in use or not, and what heaps of the program's own have,
                             ///< except regions
  uint64_t dirty_bytes;      ///< free spans that are still resident
  uint64_t purged_bytes;     ///< free spans without memory, mapped or not

  uint64_t slabs_created;   ///< slabs cut from spans
  uint64_t slabs_released;  ///< slabs that became empty and went back

  uint64_t refills;  ///< caches filled from a heap
  uint64_t flushes;  ///< caches emptied in part, into a heap and batches
  uint64_t drains;   ///< inboxes emptied that held something

  uint64_t batches_sent;       ///< batches put into an outbox, and objects that went alone
  uint64_t batch_objects;      ///< objects in them
  uint64_t batch_messages;     ///< messages (carriers) that hold them
  uint64_t posts;              ///< atomic exchanges, one per destination, that sent messages off
  uint64_t forwards;           ///< messages received for another heap and passed on
  uint64_t messages_received;  ///< messages that reached their heap
  uint64_t objects_received;   ///< objects in them
  uint64_t turnarounds;        ///< objects of other heaps, kept by the thread that freed them
  uint64_t locks_taken;        ///< locks of heaps and of shared tables

  uint64_t large_allocations;  ///< large objects handed out
  uint64_t large_cache_hits;   ///< of these, served from the cache of free spans
  uint64_t os_maps;            ///< calls that mapped memory
  uint64_t os_purges;          ///< calls that gave memory back

  uint64_t threads_started;  ///< threads that got a thread cache
  uint64_t threads_exited;   ///< threads that gave it back
  uint64_t adoptions;        ///< parked heaps taken over by a new thread

  uint64_t user_heaps;       ///< heaps of the program's own (loft_heap_create) that exist now
  uint64_t user_heap_bytes;  ///< objects in them now
  /// What counts against the first two is committed_bytes. Of the control group, what was known
  /// when it was last looked at: at load, or with watch_group=on a second ago.
  uint64_t soft_limit_bytes;   ///< in force now, 0 for none
  uint64_t hard_limit_bytes;   ///< in force now, 0 for none
  uint64_t group_limit_bytes;  ///< of the group's limits, the one nearest to being met; 0 for none
  uint64_t group_used_bytes;   ///< what counts against it, of all the group's processes; 0 unless
                               ///< watch_group=on
  uint64_t group_processors;   ///< processors that the process may use at a time; 0 if not known
  uint64_t soft_limit_hits;    ///< times that a soft limit, or one of the group, was met
  uint64_t hard_limit_refusals;  ///< requests that got NULL because of the hard limit

  /// The accounting identity: where the resident memory of the heap is. Always, to the byte,
  ///
  ///     resident_bytes == live_bytes + rounding_bytes + free_in_slabs_bytes + cached_bytes
  ///                       + in_flight_bytes + large_cached_bytes + free_span_bytes
  ///                       + metadata_resident_bytes + purged_charged_bytes
  ///                       + user_heap_resident_bytes + huge_slack_bytes - untouched_bytes
  ///
  /// The left side is what the system says of the addresses below. The parts are what loft's own
  /// books say, and the last two are by how much the one exceeds the other. The library's static
  /// data and the background thread's stack are not among it. Asking the system takes about a
  /// millisecond for each GiB that is resident; a caller whose struct ends before these fields is
  /// spared that.
  uint64_t resident_bytes;
  uint64_t live_bytes;               ///< asked for by the program, and not freed
  uint64_t rounding_bytes;           ///< what objects have beyond that. Exact for large ones; of
                                     ///< small ones the sum of the two is, and how it is divided is
                                     ///< estimated from one request in each refill
  uint64_t free_in_slabs_bytes;      ///< on pages of slabs that hold an object, or did
  uint64_t cached_bytes;             ///< small objects in thread caches
  uint64_t in_flight_bytes;          ///< small objects in batches, outboxes and inboxes
  uint64_t large_cached_bytes;       ///< large objects in caches, of threads or between them
  uint64_t free_span_bytes;          ///< free spans that keep their memory for now
  uint64_t metadata_resident_bytes;  ///< loft's own tables, the pagemap among them
  uint64_t purged_charged_bytes;     ///< free spans that the system did not take back
  uint64_t user_heap_resident_bytes;  ///< heaps of the program's own, except regions
  uint64_t huge_slack_bytes;          ///< resident because the rest of a huge page is in use
  uint64_t untouched_bytes;  ///< in the parts above, but not resident: never written by the
                             ///< program, or swapped out

  uint64_t huge_page_bytes;  ///< of resident_bytes, in huge pages; 0 where the system does not say
  uint64_t live_objects;     ///< handed out and not freed; large ones included
  uint64_t address_begin;    ///< all that is counted here lies in [address_begin, address_end)
  uint64_t address_end;      ///< most of that is not mapped, and some may be the program's mappings

  uint64_t checked_frees;        ///< frees into a young bin, each of which is checked
  uint64_t bins_grown;           ///< bins of thread caches that got more room
  uint64_t bins_released;        ///< and that lost all of it, unused
  uint64_t batches_evicted;      ///< batches sent before they were full, for want of a place
  uint64_t objects_sent_singly;  ///< objects sent without a batch
  uint64_t heaps_helped;         ///< inboxes emptied by a refill of another heap
  uint64_t hole_bytes;           ///< given back of partly used slabs
  uint64_t spans_acquired;       ///< spans taken, by slabs and large objects
  uint64_t spans_released;       ///< spans that came back
  uint64_t large_resizes;        ///< large objects given other pages by realloc, without a copy
  uint64_t large_moves;          ///< of these, by moving their pages
  uint64_t caches_emptied;       ///< times that a cache was emptied: by loft_idle_begin, or because
                                 ///< its processor had no use for it
  uint64_t background_ticks;     ///< looks of the background thread, or of slow paths in its place
  uint64_t locks_waited_for;     ///< of locks_taken, that were found held

  uint64_t cores;        ///< processors that have a cache (owner=core)
  uint64_t core_fences;  ///< times that another processor was fenced off its cache

  /// Of the option owner=room; otherwise 0.
  uint64_t room_ready;        ///< refills for which the room had a magazine ready
  uint64_t room_late;         ///< and for which it had none yet
  uint64_t room_returns;      ///< flushes of which the room took the objects home
  uint64_t room_behind;       ///< and that found it had not taken the last ones yet
  uint64_t room_ahead_bytes;  ///< in magazines that are ready now; part of cached_bytes
  uint64_t room_cpu_ns;       ///< processor time of the room's thread; 0 while there is none
  uint64_t room_cleared;      ///< objects that it had cleared, and calloc took

  uint64_t slabs_taken_over;  ///< by a heap that needed them from one that nobody used, or that had
                              ///< too many
  uint64_t tail_bytes;  ///< given back behind large objects that were shorter than their space
} loft_stats_t;

/// Fills `*stats`, in which the caller has set `struct_size`, up to that size: a program built
/// against a smaller struct than the library's gets the fields it knows, and one with a larger
/// struct learns from `struct_size` where the filled part ends. 0; or EINVAL if `struct_size`
/// leaves no room for any field.
LOFT_API int loft_stats(loft_stats_t* stats) LOFT_NOEXCEPT;

/// The identity of one size class, and its events. The fields of loft_stats_t are the sums of these
/// over all classes, where there are fields of the same name; free_bytes is part of
/// free_in_slabs_bytes, and what caches hold of large objects is large_cached_bytes there.
///
///     resident_bytes == live_bytes + rounding_bytes + free_bytes + cached_bytes + in_flight_bytes
///                       + huge_slack_bytes - untouched_bytes
typedef struct loft_class_stats_t {
  uint64_t object_bytes;  ///< of an object of the class; 0: large objects

  uint64_t live_objects;      ///< handed out and not freed
  uint64_t resident_bytes;    ///< as the system says
  uint64_t live_bytes;        ///< asked for by the program, and not freed
  uint64_t rounding_bytes;    ///< what objects have beyond that
  uint64_t free_bytes;        ///< on pages of slabs that have memory
  uint64_t cached_bytes;      ///< in thread caches
  uint64_t in_flight_bytes;   ///< in batches, outboxes and inboxes
  uint64_t huge_slack_bytes;  ///< resident because the rest of a huge page is in use
  uint64_t untouched_bytes;   ///< in the parts above, but not resident
  uint64_t slabs;             ///< that exist now

  // Events; 0 for large objects.
  uint64_t slabs_created;     ///< slabs cut from spans
  uint64_t slabs_released;    ///< slabs that became empty and went back
  uint64_t refills;           ///< of caches
  uint64_t objects_refilled;  ///< handed out by slabs
  uint64_t objects_flushed;   ///< given back by the threads that own the slabs
  uint64_t objects_sent;      ///< freed by other threads
  uint64_t objects_received;  ///< of these, back in their slabs
} loft_class_stats_t;

/// Fills up to `count` elements of `classes`, each `size` bytes long, the caller's
/// sizeof(loft_class_stats_t): the size classes, smallest first, and last the large objects. What a
/// larger struct has beyond the library's is zero. Returns how many classes there are. Costs as
/// loft_stats does.
LOFT_API size_t loft_stats_classes(loft_class_stats_t* classes, size_t count,
                                   size_t size) LOFT_NOEXCEPT;

/// The forms of statistics as text.
typedef enum loft_stats_format_t {
  LOFT_STATS_TEXT,        ///< tables for people
  LOFT_STATS_JSON,        ///< one line: the fields of loft_stats_t, and those of each class
  LOFT_STATS_PROMETHEUS,  ///< text exposition, version 0.0.4
} loft_stats_format_t;

/// Writes both structs to a file descriptor, as text, except the addresses. Allocates nothing. 0,
/// or the error that writing met; EINVAL for no format.
LOFT_API int loft_stats_write(int file, loft_stats_format_t format) LOFT_NOEXCEPT;

/// The same into memory, as snprintf does: at most `size` bytes, the last of them a NUL. Returns
/// how many the whole text takes without it; 0 for no format.
LOFT_API size_t loft_stats_print(char* text, size_t size, loft_stats_format_t format) LOFT_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif  // LOFT_LOFT_H
