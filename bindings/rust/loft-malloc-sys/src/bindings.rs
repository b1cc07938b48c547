// Written by tools/rust_bindings.py from include/loft/loft.h, which is where to read and change it.

use core::ffi::{c_char, c_int, c_void};

/// changes when the interface changes incompatibly
pub const LOFT_VERSION_MAJOR: c_int = 0;

/// grows with new features
pub const LOFT_VERSION_MINOR: c_int = 2;

/// grows with corrections
pub const LOFT_VERSION_PATCH: c_int = 0;

/// the three as text
pub const LOFT_VERSION_STRING: &str = "0.2.0";

/// A number that grows with every release.
pub const LOFT_VERSION: c_int = LOFT_VERSION_MAJOR * 10000 + LOFT_VERSION_MINOR * 100 + LOFT_VERSION_PATCH;

/// Called for an object, with the `context` that was given and the object's usable size. Another
/// result than 0 ends the visit. It may allocate and free, also the object.
pub type loft_visit_t = unsafe extern "C" fn(context: *mut c_void, object: *mut c_void, usable: usize) -> c_int;

/// Called with a report of misuse: `bytes` bytes of text with a NUL behind them, which are gone
/// when it returns. docs/internals/reports.md says what they mean.
pub type loft_report_t = unsafe extern "C" fn(text: *const c_char, bytes: usize, closure: *mut c_void);

/// Called with what loft says: `bytes` bytes of text with a NUL behind them, which are gone when it
/// returns. Mostly one line, which ends with a newline. A report comes in two parts: what is known
/// before the stack is followed, and the rest.
pub type loft_message_t = unsafe extern "C" fn(text: *const c_char, bytes: usize, closure: *mut c_void);

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
#[repr(C)]
pub struct loft_heap_t {
    inside: [u8; 0],
    pinned: core::marker::PhantomData<(*mut u8, core::marker::PhantomPinned)>,
}

/// What loft_purge could not reach.
#[repr(C)]
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct loft_unreached_t {
    /// other threads with objects in their caches, which only they can empty
    pub threads: u64,
    /// approximate bytes in these caches
    pub bytes: u64,
}

const _: () = {
    assert!(core::mem::size_of::<loft_unreached_t>() == 16);
    assert!(core::mem::offset_of!(loft_unreached_t, threads) == 0);
    assert!(core::mem::offset_of!(loft_unreached_t, bytes) == 8);
};

/// Statistics of one heap of the program's own.
#[repr(C)]
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct loft_heap_stats_t {
    /// as in loft_stats_t
    pub struct_size: u64,
    /// allocated and not freed
    pub live_objects: u64,
    /// usable bytes of these
    pub live_bytes: u64,
    /// of the region, or of the memory that the heap has from the system
    pub capacity_bytes: u64,
    /// loft's tables for it; those of a long region are mostly untouched
    pub metadata_bytes: u64,
}

const _: () = {
    assert!(core::mem::size_of::<loft_heap_stats_t>() == 40);
    assert!(core::mem::offset_of!(loft_heap_stats_t, struct_size) == 0);
    assert!(core::mem::offset_of!(loft_heap_stats_t, live_objects) == 8);
    assert!(core::mem::offset_of!(loft_heap_stats_t, live_bytes) == 16);
    assert!(core::mem::offset_of!(loft_heap_stats_t, capacity_bytes) == 24);
    assert!(core::mem::offset_of!(loft_heap_stats_t, metadata_bytes) == 32);
};

/// Reading them waits for no thread and allocates nothing. A thread that makes or destroys a heap
/// of the program's own at the same moment waits until these heaps are summed up. Each number is
/// right for some moment of the call. Sums may differ a little while other threads run. Some fields
/// count events since the process started: those from slabs_created to adoptions, soft_limit_hits,
/// hard_limit_refusals, and those from checked_frees on, except cores. All others describe the
/// present. docs/internals/accounting.md explains them.
#[repr(C)]
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct loft_stats_t {
    /// in: sizeof(loft_stats_t); out: how many bytes the library filled
    pub struct_size: u64,
    /// heaps that exist, parked ones included
    pub heaps: u64,
    /// heaps whose thread has ended and that no thread has adopted
    pub heaps_parked: u64,
    /// threads that have a cache now; 0 where processors have the caches
    pub threads_attached: u64,
    /// objects handed out or ready in caches and batches; large included
    pub allocated_bytes: u64,
    /// large objects handed out
    pub large_bytes: u64,
    /// slabs, whatever the state of their objects
    pub slab_bytes: u64,
    /// loft's own tables, in use
    pub metadata_bytes: u64,
    /// memory that may be resident: slabs, large objects, dirty spans,
    /// tables, in use or not, and heaps of the program's own, except
    /// regions
    pub committed_bytes: u64,
    /// free spans, spare slabs among them, that may be resident
    pub dirty_bytes: u64,
    /// free spans without memory, mapped or not
    pub purged_bytes: u64,
    /// slabs cut from spans
    pub slabs_created: u64,
    /// slabs that became empty and were released
    pub slabs_released: u64,
    /// caches filled from a heap
    pub refills: u64,
    /// caches emptied in part, into a heap and batches
    pub flushes: u64,
    /// inboxes drained that held messages
    pub drains: u64,
    /// batches put into an outbox, and objects that went alone
    pub batches_sent: u64,
    /// objects in them
    pub batch_objects: u64,
    /// messages (carriers) that hold them
    pub batch_messages: u64,
    /// atomic exchanges, one per destination, that posted messages
    pub posts: u64,
    /// messages received for another heap and passed on
    pub forwards: u64,
    /// messages that reached their heap
    pub messages_received: u64,
    /// objects in these messages
    pub objects_received: u64,
    /// objects of other heaps, kept by the thread that freed them
    pub turnarounds: u64,
    /// locks of heaps and of shared tables
    pub locks_taken: u64,
    /// large objects handed out
    pub large_allocations: u64,
    /// of these, served from the cache of free spans
    pub large_cache_hits: u64,
    /// calls that mapped memory
    pub os_maps: u64,
    /// calls that gave memory back
    pub os_purges: u64,
    /// threads that got a thread cache
    pub threads_started: u64,
    /// threads that gave their cache back
    pub threads_exited: u64,
    /// parked heaps adopted by a new thread
    pub adoptions: u64,
    /// heaps of the program's own (loft_heap_create) that exist now
    pub user_heaps: u64,
    /// objects in them now
    pub user_heap_bytes: u64,
    /// in force now, 0 for none
    pub soft_limit_bytes: u64,
    /// in force now, 0 for none
    pub hard_limit_bytes: u64,
    /// the group's limit that is nearest to being met; 0 for none
    pub group_limit_bytes: u64,
    /// usage that counts against it, of all the group's processes; 0
    /// unless cgroup=watch
    pub group_used_bytes: u64,
    /// times that a soft limit, or one of the group, was met
    pub soft_limit_hits: u64,
    /// requests that got NULL because of the hard limit
    pub hard_limit_refusals: u64,
    /// The accounting identity: the parts of the heap's resident memory. Always, to the byte,
    ///
    /// ```text
    /// resident_bytes == live_bytes + rounding_bytes + free_in_slabs_bytes + cached_bytes
    /// + in_flight_bytes + large_cached_bytes + free_span_bytes
    /// + metadata_resident_bytes + purged_charged_bytes
    /// + user_heap_resident_bytes + huge_slack_bytes - untouched_bytes
    ///
    /// ```
    /// The left side comes from the system, for the addresses below. The parts come from loft's own
    /// counters. The last two parts are the difference, one in each direction. The library's static
    /// data and the background thread's stack are not included. The system takes about a millisecond
    /// for each resident GiB. It is not asked if the caller's struct ends before these fields.
    pub resident_bytes: u64,
    /// requested by the program, and not freed
    pub live_bytes: u64,
    /// space of objects beyond their requests. Exact for large
    /// objects. For small ones, only the sum of the two is exact;
    /// one request in each refill gives an estimate of the parts
    pub rounding_bytes: u64,
    /// on pages of slabs that hold an object, or did
    pub free_in_slabs_bytes: u64,
    /// small objects in thread caches
    pub cached_bytes: u64,
    /// small objects in batches, outboxes and inboxes
    pub in_flight_bytes: u64,
    /// large objects in caches, of threads or between them
    pub large_cached_bytes: u64,
    /// free spans that are still resident
    pub free_span_bytes: u64,
    /// loft's own tables, the pagemap among them, and what a
    /// profile needs beside the objects
    pub metadata_resident_bytes: u64,
    /// free spans that the system refused to take back
    pub purged_charged_bytes: u64,
    /// heaps of the program's own, except regions
    pub user_heap_resident_bytes: u64,
    /// resident because the rest of a huge page is in use
    pub huge_slack_bytes: u64,
    /// in the parts above, but not resident: never written by the
    /// program, or swapped out
    pub untouched_bytes: u64,
    /// of resident_bytes, in huge pages; 0 where the system does not say
    pub huge_page_bytes: u64,
    /// handed out and not freed; large ones included
    pub live_objects: u64,
    /// everything counted here lies in \[address_begin, address_end)
    pub address_begin: u64,
    /// most of it is not mapped, and some may be the program's mappings
    pub address_end: u64,
    /// frees into a young bin, each of which is checked
    pub checked_frees: u64,
    /// bins that got a longer array
    pub bins_grown: u64,
    /// unused bins that gave up their array
    pub bins_released: u64,
    /// batches sent before they were full, for lack of a place
    pub batches_evicted: u64,
    /// objects sent without a batch
    pub objects_sent_singly: u64,
    /// inboxes drained by a refill of another heap
    pub heaps_helped: u64,
    /// purged from partly used slabs
    pub hole_bytes: u64,
    /// spans taken, by slabs and large objects
    pub spans_acquired: u64,
    /// spans released
    pub spans_released: u64,
    /// large objects given other pages by realloc, without a copy
    pub large_resizes: u64,
    /// of these, by moving their pages
    pub large_moves: u64,
    /// times that a cache was emptied: by loft_idle_begin, or because
    /// its processor was idle
    pub caches_emptied: u64,
    /// rounds over unused memory, by slow paths or by loft's thread
    pub background_ticks: u64,
    /// of locks_taken, those that were found held
    pub locks_waited_for: u64,
    /// processors that have a cache (owner=cpu)
    pub cores: u64,
    /// times that a fence closed the cache of another processor
    pub core_fences: u64,
    /// slabs that a heap took from another: an unused heap, or one with
    /// too many
    pub slabs_taken_over: u64,
    /// threads of loft's own that purge unused memory: 0 or 1
    pub background_threads: u64,
}

const _: () = {
    assert!(core::mem::size_of::<loft_stats_t>() == 600);
    assert!(core::mem::offset_of!(loft_stats_t, struct_size) == 0);
    assert!(core::mem::offset_of!(loft_stats_t, heaps) == 8);
    assert!(core::mem::offset_of!(loft_stats_t, heaps_parked) == 16);
    assert!(core::mem::offset_of!(loft_stats_t, threads_attached) == 24);
    assert!(core::mem::offset_of!(loft_stats_t, allocated_bytes) == 32);
    assert!(core::mem::offset_of!(loft_stats_t, large_bytes) == 40);
    assert!(core::mem::offset_of!(loft_stats_t, slab_bytes) == 48);
    assert!(core::mem::offset_of!(loft_stats_t, metadata_bytes) == 56);
    assert!(core::mem::offset_of!(loft_stats_t, committed_bytes) == 64);
    assert!(core::mem::offset_of!(loft_stats_t, dirty_bytes) == 72);
    assert!(core::mem::offset_of!(loft_stats_t, purged_bytes) == 80);
    assert!(core::mem::offset_of!(loft_stats_t, slabs_created) == 88);
    assert!(core::mem::offset_of!(loft_stats_t, slabs_released) == 96);
    assert!(core::mem::offset_of!(loft_stats_t, refills) == 104);
    assert!(core::mem::offset_of!(loft_stats_t, flushes) == 112);
    assert!(core::mem::offset_of!(loft_stats_t, drains) == 120);
    assert!(core::mem::offset_of!(loft_stats_t, batches_sent) == 128);
    assert!(core::mem::offset_of!(loft_stats_t, batch_objects) == 136);
    assert!(core::mem::offset_of!(loft_stats_t, batch_messages) == 144);
    assert!(core::mem::offset_of!(loft_stats_t, posts) == 152);
    assert!(core::mem::offset_of!(loft_stats_t, forwards) == 160);
    assert!(core::mem::offset_of!(loft_stats_t, messages_received) == 168);
    assert!(core::mem::offset_of!(loft_stats_t, objects_received) == 176);
    assert!(core::mem::offset_of!(loft_stats_t, turnarounds) == 184);
    assert!(core::mem::offset_of!(loft_stats_t, locks_taken) == 192);
    assert!(core::mem::offset_of!(loft_stats_t, large_allocations) == 200);
    assert!(core::mem::offset_of!(loft_stats_t, large_cache_hits) == 208);
    assert!(core::mem::offset_of!(loft_stats_t, os_maps) == 216);
    assert!(core::mem::offset_of!(loft_stats_t, os_purges) == 224);
    assert!(core::mem::offset_of!(loft_stats_t, threads_started) == 232);
    assert!(core::mem::offset_of!(loft_stats_t, threads_exited) == 240);
    assert!(core::mem::offset_of!(loft_stats_t, adoptions) == 248);
    assert!(core::mem::offset_of!(loft_stats_t, user_heaps) == 256);
    assert!(core::mem::offset_of!(loft_stats_t, user_heap_bytes) == 264);
    assert!(core::mem::offset_of!(loft_stats_t, soft_limit_bytes) == 272);
    assert!(core::mem::offset_of!(loft_stats_t, hard_limit_bytes) == 280);
    assert!(core::mem::offset_of!(loft_stats_t, group_limit_bytes) == 288);
    assert!(core::mem::offset_of!(loft_stats_t, group_used_bytes) == 296);
    assert!(core::mem::offset_of!(loft_stats_t, soft_limit_hits) == 304);
    assert!(core::mem::offset_of!(loft_stats_t, hard_limit_refusals) == 312);
    assert!(core::mem::offset_of!(loft_stats_t, resident_bytes) == 320);
    assert!(core::mem::offset_of!(loft_stats_t, live_bytes) == 328);
    assert!(core::mem::offset_of!(loft_stats_t, rounding_bytes) == 336);
    assert!(core::mem::offset_of!(loft_stats_t, free_in_slabs_bytes) == 344);
    assert!(core::mem::offset_of!(loft_stats_t, cached_bytes) == 352);
    assert!(core::mem::offset_of!(loft_stats_t, in_flight_bytes) == 360);
    assert!(core::mem::offset_of!(loft_stats_t, large_cached_bytes) == 368);
    assert!(core::mem::offset_of!(loft_stats_t, free_span_bytes) == 376);
    assert!(core::mem::offset_of!(loft_stats_t, metadata_resident_bytes) == 384);
    assert!(core::mem::offset_of!(loft_stats_t, purged_charged_bytes) == 392);
    assert!(core::mem::offset_of!(loft_stats_t, user_heap_resident_bytes) == 400);
    assert!(core::mem::offset_of!(loft_stats_t, huge_slack_bytes) == 408);
    assert!(core::mem::offset_of!(loft_stats_t, untouched_bytes) == 416);
    assert!(core::mem::offset_of!(loft_stats_t, huge_page_bytes) == 424);
    assert!(core::mem::offset_of!(loft_stats_t, live_objects) == 432);
    assert!(core::mem::offset_of!(loft_stats_t, address_begin) == 440);
    assert!(core::mem::offset_of!(loft_stats_t, address_end) == 448);
    assert!(core::mem::offset_of!(loft_stats_t, checked_frees) == 456);
    assert!(core::mem::offset_of!(loft_stats_t, bins_grown) == 464);
    assert!(core::mem::offset_of!(loft_stats_t, bins_released) == 472);
    assert!(core::mem::offset_of!(loft_stats_t, batches_evicted) == 480);
    assert!(core::mem::offset_of!(loft_stats_t, objects_sent_singly) == 488);
    assert!(core::mem::offset_of!(loft_stats_t, heaps_helped) == 496);
    assert!(core::mem::offset_of!(loft_stats_t, hole_bytes) == 504);
    assert!(core::mem::offset_of!(loft_stats_t, spans_acquired) == 512);
    assert!(core::mem::offset_of!(loft_stats_t, spans_released) == 520);
    assert!(core::mem::offset_of!(loft_stats_t, large_resizes) == 528);
    assert!(core::mem::offset_of!(loft_stats_t, large_moves) == 536);
    assert!(core::mem::offset_of!(loft_stats_t, caches_emptied) == 544);
    assert!(core::mem::offset_of!(loft_stats_t, background_ticks) == 552);
    assert!(core::mem::offset_of!(loft_stats_t, locks_waited_for) == 560);
    assert!(core::mem::offset_of!(loft_stats_t, cores) == 568);
    assert!(core::mem::offset_of!(loft_stats_t, core_fences) == 576);
    assert!(core::mem::offset_of!(loft_stats_t, slabs_taken_over) == 584);
    assert!(core::mem::offset_of!(loft_stats_t, background_threads) == 592);
};

/// What the calling thread has done so far.
#[repr(C)]
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct loft_thread_stats_t {
    /// in: sizeof(loft_thread_stats_t); out: how many bytes were filled
    pub struct_size: u64,
    /// of the objects that the thread has allocated, less those of the objects
    /// that it has freed; below zero where it frees what others have allocated
    pub net_bytes: i64,
}

const _: () = {
    assert!(core::mem::size_of::<loft_thread_stats_t>() == 16);
    assert!(core::mem::offset_of!(loft_thread_stats_t, struct_size) == 0);
    assert!(core::mem::offset_of!(loft_thread_stats_t, net_bytes) == 8);
};

/// The identity of one size class, and its events. A field of loft_stats_t of the same name is the
/// sum of these over all classes. Exceptions: free_bytes is part of free_in_slabs_bytes, and large
/// objects in caches are large_cached_bytes there.
///
/// ```text
/// resident_bytes == live_bytes + rounding_bytes + free_bytes + cached_bytes + in_flight_bytes
/// + huge_slack_bytes - untouched_bytes
/// ```
#[repr(C)]
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct loft_class_stats_t {
    /// size of an object of the class; 0: large objects
    pub object_bytes: u64,
    /// handed out and not freed
    pub live_objects: u64,
    /// according to the system
    pub resident_bytes: u64,
    /// requested by the program, and not freed
    pub live_bytes: u64,
    /// space of objects beyond their requests
    pub rounding_bytes: u64,
    /// on pages of slabs that have memory
    pub free_bytes: u64,
    /// in thread caches
    pub cached_bytes: u64,
    /// in batches, outboxes and inboxes
    pub in_flight_bytes: u64,
    /// resident because the rest of a huge page is in use
    pub huge_slack_bytes: u64,
    /// in the parts above, but not resident
    pub untouched_bytes: u64,
    /// that exist now
    pub slabs: u64,
    /// slabs cut from spans
    pub slabs_created: u64,
    /// slabs that became empty and were released
    pub slabs_released: u64,
    /// of caches
    pub refills: u64,
    /// handed out by slabs
    pub objects_refilled: u64,
    /// returned by the threads that own the slabs
    pub objects_flushed: u64,
    /// freed by other threads
    pub objects_sent: u64,
    /// of these, back in their slabs
    pub objects_received: u64,
}

const _: () = {
    assert!(core::mem::size_of::<loft_class_stats_t>() == 144);
    assert!(core::mem::offset_of!(loft_class_stats_t, object_bytes) == 0);
    assert!(core::mem::offset_of!(loft_class_stats_t, live_objects) == 8);
    assert!(core::mem::offset_of!(loft_class_stats_t, resident_bytes) == 16);
    assert!(core::mem::offset_of!(loft_class_stats_t, live_bytes) == 24);
    assert!(core::mem::offset_of!(loft_class_stats_t, rounding_bytes) == 32);
    assert!(core::mem::offset_of!(loft_class_stats_t, free_bytes) == 40);
    assert!(core::mem::offset_of!(loft_class_stats_t, cached_bytes) == 48);
    assert!(core::mem::offset_of!(loft_class_stats_t, in_flight_bytes) == 56);
    assert!(core::mem::offset_of!(loft_class_stats_t, huge_slack_bytes) == 64);
    assert!(core::mem::offset_of!(loft_class_stats_t, untouched_bytes) == 72);
    assert!(core::mem::offset_of!(loft_class_stats_t, slabs) == 80);
    assert!(core::mem::offset_of!(loft_class_stats_t, slabs_created) == 88);
    assert!(core::mem::offset_of!(loft_class_stats_t, slabs_released) == 96);
    assert!(core::mem::offset_of!(loft_class_stats_t, refills) == 104);
    assert!(core::mem::offset_of!(loft_class_stats_t, objects_refilled) == 112);
    assert!(core::mem::offset_of!(loft_class_stats_t, objects_flushed) == 120);
    assert!(core::mem::offset_of!(loft_class_stats_t, objects_sent) == 128);
    assert!(core::mem::offset_of!(loft_class_stats_t, objects_received) == 136);
};

/// The forms of statistics as text.
pub type loft_stats_format_t = core::ffi::c_uint;

/// tables for people
pub const LOFT_STATS_TEXT: loft_stats_format_t = 0;

/// one line: the fields of loft_stats_t, and those of each class
pub const LOFT_STATS_JSON: loft_stats_format_t = 1;

/// text exposition, version 0.0.4
pub const LOFT_STATS_PROMETHEUS: loft_stats_format_t = 2;

unsafe extern "C" {
    /// Options of a program, fixed when it is linked: "name=value,name=value". The library's own
    /// definition is weak and NULL. A program overrides it by its own definition. (A program that has
    /// loft preloaded, and does not link it, must export the symbol: -rdynamic.)
    pub static loft_options: *const c_char;

    /// An object of at least `size` bytes; contents undefined.
    pub fn loft_malloc(size: usize) -> *mut c_void;

    /// Frees `object`. NULL is allowed and does nothing. Keeps errno.
    pub fn loft_free(object: *mut c_void);

    /// An array of `count` elements of `size` bytes each, all bytes zero. ENOMEM also if the product
    /// overflows.
    pub fn loft_calloc(count: usize, size: usize) -> *mut c_void;

    /// Resizes the object to at least `size` bytes, and may move it. Its first min(old, new) bytes are
    /// kept. NULL `object`: as loft_malloc. `size` 0 with an object: frees it and returns NULL. On
    /// failure, returns NULL and leaves `object` unchanged. The result is aligned to 16 bytes, even if
    /// `object` was aligned to more.
    pub fn loft_realloc(object: *mut c_void, size: usize) -> *mut c_void;

    /// loft_realloc to `count * size` bytes; an overflowing product is ENOMEM and keeps `object`.
    pub fn loft_reallocarray(object: *mut c_void, count: usize, size: usize) -> *mut c_void;

    /// An object at a multiple of `alignment`, any power of two; `size` need not be a multiple of it.
    /// EINVAL if `alignment` is not a power of two.
    pub fn loft_aligned_alloc(alignment: usize, size: usize) -> *mut c_void;

    /// Stores such an object in `*object` and returns 0. `alignment` must be a power of two and a
    /// multiple of sizeof(void*). On failure, returns EINVAL or ENOMEM and leaves `*object` and errno
    /// unchanged.
    pub fn loft_posix_memalign(object: *mut *mut c_void, alignment: usize, size: usize) -> c_int;

    /// As loft_aligned_alloc, but rounds `alignment` up to a power of two. EINVAL if there is none that
    /// large.
    pub fn loft_memalign(alignment: usize, size: usize) -> *mut c_void;

    /// An object at a page boundary.
    pub fn loft_valloc(size: usize) -> *mut c_void;

    /// An object at a page boundary; rounds `size` up to whole pages, and 0 to one page.
    pub fn loft_pvalloc(size: usize) -> *mut c_void;

    /// How many bytes of `object` the program may use: at least as many as it requested. 0 for NULL.
    pub fn loft_malloc_usable_size(object: *const c_void) -> usize;

    /// Purges all free memory, except about `pad` bytes and the caches of other threads. Returns 1 if
    /// any memory went back to the system, otherwise 0.
    pub fn loft_malloc_trim(pad: usize) -> c_int;

    /// Purges all free memory: that of the caller, of ended threads and of no thread, and whole free
    /// pages in the slabs of all threads, except in heaps that are at work at that moment. Other
    /// threads keep their caches, whether they run or sleep. `*unreached` tells how much these hold; it
    /// may be NULL. Returns the bytes that went back to the system.
    pub fn loft_purge(unreached: *mut loft_unreached_t) -> u64;

    /// For event loops, before a wait that may be long. Empties the caches of the calling thread: their
    /// objects return to their heaps, and free pages to the system. No other thread can do that for a
    /// sleeping thread. The thread may use loft again at once, without loft_idle_end. Does nothing
    /// where processors have the caches (owner=cpu).
    pub fn loft_idle_begin();

    /// After the wait. Need not be called.
    pub fn loft_idle_end();

    /// Starts a thread of loft's own that purges unused memory while the program does nothing, as the
    /// option background=on does; loft never starts one unasked. It runs until the process ends, or its
    /// first thread does by itself. The child of a fork has none until it calls this. Any thread may
    /// call it, at any time. Returns 0 also if the thread runs already; EPERM after the end of the
    /// process's first thread; EAGAIN if the system gives none now.
    pub fn loft_background_start() -> c_int;

    /// C23: loft_free for a caller that knows the size: the last one that was requested for the object,
    /// of loft_malloc, loft_calloc (the product), loft_realloc or loft_expand; or any size whose
    /// loft_good_size was requested. A wrong value is undefined behaviour. It is no faster than
    /// loft_free. With hardened=full, another size stops the program; with hardened=guard, one that
    /// does not fit the object's place. NULL is allowed.
    pub fn loft_free_sized(object: *mut c_void, size: usize);

    /// C23: the same for an object of loft_aligned_alloc, loft_aligned_calloc or loft_aligned_realloc,
    /// with the alignment that was requested. The hardened modes check that, too.
    pub fn loft_free_aligned_sized(object: *mut c_void, alignment: usize, size: usize);

    /// The largest size that takes no more memory than `size` bytes: what loft_malloc_usable_size says
    /// of an object of `size` bytes, or, with hardened=full, of one for which this is requested. A
    /// container that grows may round its capacity up to it. Bytes; at least `size`, and `size` itself
    /// above PTRDIFF_MAX, where the allocation will fail. Size 0 counts as 1. Costs a few instructions,
    /// and depends on nothing but the option `hardened` and the size of a page. An object of a thread's
    /// first calls may have more, up to a whole cache line.
    pub fn loft_good_size(size: usize) -> usize;

    /// The same for an object of loft_aligned_alloc. `size` itself if `alignment` is no power of two.
    pub fn loft_aligned_good_size(alignment: usize, size: usize) -> usize;

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
    pub fn loft_expand(object: *mut c_void, size: usize) -> c_int;

    /// As loft_aligned_alloc, for `count` elements of `size` bytes each, all bytes zero. Memory that is
    /// known to be zero, fresh from the system or purged, is not cleared: mostly that of objects above
    /// 4 MiB, and some from 4 KiB on. ENOMEM also if the product overflows.
    pub fn loft_aligned_calloc(alignment: usize, count: usize, size: usize) -> *mut c_void;

    /// As loft_realloc, for a result at a multiple of `alignment`, any power of two, whatever `object`
    /// was aligned to. NULL `object`: as loft_aligned_alloc. Objects above 4 MiB are not copied up to
    /// an alignment of 64 KiB: their pages move. EINVAL if `alignment` is not a power of two.
    pub fn loft_aligned_realloc(object: *mut c_void, alignment: usize, size: usize) -> *mut c_void;

    /// The start of the object in which `interior` lies. NULL for an address in no object. A small
    /// object may be free: the caller must know that the object is allocated, and stays so.
    pub fn loft_object_start(interior: *const c_void) -> *mut c_void;

    /// The usable size of that object; 0 for an address in no object.
    pub fn loft_object_size(interior: *const c_void) -> usize;

    /// Stops the program, with a report that names `call`, if `bytes` bytes from `at` on begin in an
    /// object of loft's and do not end in it. With hardened=full an object has the bytes that were
    /// asked for, and a freed one has none; otherwise it has its usable size. Ranges outside of the
    /// heap are not looked at. For what copies and fills memory: libloft-bounds.so does so for libc's
    /// functions.
    pub fn loft_check_bounds(call: *const c_char, at: *const c_void, bytes: usize);

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
    pub fn loft_visit_objects(visit: Option<loft_visit_t>, context: *mut c_void) -> usize;

    /// A heap over ordinary memory. NULL and ENOMEM without memory for it.
    pub fn loft_heap_create() -> *mut loft_heap_t;

    /// A heap over \[region, region + bytes). It uses a part whose address and length are multiples of
    /// 256 bytes. The region stays the caller's: it must outlive the heap, and two heaps must not share
    /// any of it. The metadata takes a 64th of its length in address space, and memory as far as
    /// objects need it. EINVAL if `region` is NULL, wraps around, or has less than 256 usable bytes.
    pub fn loft_heap_create_over(region: *mut c_void, bytes: usize) -> *mut loft_heap_t;

    /// Frees the heap with all its objects. A region stays as it is, for the caller to use. NULL is
    /// allowed and does nothing.
    pub fn loft_heap_destroy(heap: *mut loft_heap_t);

    /// As loft_malloc. In a region, ENOMEM means that there is no room.
    pub fn loft_heap_malloc(heap: *mut loft_heap_t, size: usize) -> *mut c_void;

    /// As loft_calloc.
    pub fn loft_heap_calloc(heap: *mut loft_heap_t, count: usize, size: usize) -> *mut c_void;

    /// As loft_aligned_alloc.
    pub fn loft_heap_aligned_alloc(heap: *mut loft_heap_t, alignment: usize, size: usize) -> *mut c_void;

    /// As loft_realloc. Resizes objects above 1 KiB in place if possible. In a region, no object that
    /// shrinks moves.
    pub fn loft_heap_realloc(heap: *mut loft_heap_t, object: *mut c_void, size: usize) -> *mut c_void;

    /// As loft_aligned_calloc. In a region, the object is cleared.
    pub fn loft_heap_aligned_calloc(heap: *mut loft_heap_t, alignment: usize, count: usize, size: usize) -> *mut c_void;

    /// As loft_aligned_realloc. An object stays in place where loft_heap_realloc would leave it, if it
    /// is aligned; no pages move.
    pub fn loft_heap_aligned_realloc(heap: *mut loft_heap_t, object: *mut c_void, alignment: usize, size: usize) -> *mut c_void;

    /// As loft_expand. An object of up to 1 KiB gets any size up to its usable size. A longer one gives
    /// up, or takes, 256 bytes at a time of the free memory behind it. One with pages to itself stays
    /// as it is: 1 if it fits. Takes a lock.
    pub fn loft_heap_expand(heap: *mut loft_heap_t, object: *mut c_void, size: usize) -> c_int;

    /// As loft_good_size, for this heap, which depends on its kind. Where its room is scarce, an object
    /// may have more.
    pub fn loft_heap_good_size(heap: *const loft_heap_t, size: usize) -> usize;

    /// As loft_free, for an object of this heap. An object of another heap stops the program.
    pub fn loft_heap_free(heap: *mut loft_heap_t, object: *mut c_void);

    /// As loft_free_sized, for any object of this heap, aligned or not. In both hardened modes, a size
    /// above the usable size stops the program.
    pub fn loft_heap_free_sized(heap: *mut loft_heap_t, object: *mut c_void, size: usize);

    /// As loft_malloc_usable_size.
    pub fn loft_heap_usable_size(heap: *const loft_heap_t, object: *const c_void) -> usize;

    /// 1 if `address` lies in memory that the heap has at the moment, in an object or not; otherwise 0.
    /// Any address is allowed.
    pub fn loft_heap_contains(heap: *const loft_heap_t, address: *const c_void) -> c_int;

    /// As loft_visit_objects, for the objects of this heap, also in a region. Other threads may use
    /// malloc meanwhile, but not this heap.
    pub fn loft_heap_visit_objects(heap: *const loft_heap_t, visit: Option<loft_visit_t>, context: *mut c_void) -> usize;

    /// As loft_stats, for one heap.
    pub fn loft_heap_stats(heap: *const loft_heap_t, stats: *mut loft_heap_stats_t) -> c_int;

    /// LOFT_VERSION of the running library, for comparison with the header's.
    pub fn loft_version() -> c_int;

    /// Sets one option from text. Returns 0; or ENOENT for an unknown name, EINVAL for a value that the
    /// option does not accept, EPERM for `owner`, which is read once, when the library is loaded. Takes
    /// effect at the next event that the option governs. May run beside any other call. For `socket`,
    /// it returns when the socket is there, or is gone; one line on standard error says why it cannot
    /// be.
    pub fn loft_option_set(name: *const c_char, value: *const c_char) -> c_int;

    /// Writes the option's value, as text with a closing NUL, to `value`, which holds `size` bytes.
    /// Byte counts have no suffix. Returns 0; or ENOENT for an unknown name, ERANGE if the text does
    /// not fit.
    pub fn loft_option_get(name: *const c_char, value: *mut c_char, size: usize) -> c_int;

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
    pub fn loft_set_report_handler(handler: Option<loft_report_t>, closure: *mut c_void);

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
    pub fn loft_set_message_handler(handler: Option<loft_message_t>, closure: *mut c_void);

    /// Writes the profile that the option `profile` has taken so far to the file `path`, in which %p
    /// stands for the number of the process: lines of text if the name ends with .collapsed, otherwise
    /// the format of pprof, compressed. Returns 0; or an error number: of the system, ENOMEM, or
    /// ENODATA if `profile` was never on; or ELIBACC where libloft-inspect.so is not beside loft, which
    /// a line has said when `profile` was set. The file takes its name once it is whole, in place of
    /// the file that had it; a symbolic link, and all that is no regular file, is refused. Any thread
    /// may call it at any time, also in a signal handler.
    pub fn loft_profile_write(path: *const c_char) -> c_int;

    /// Fills `*stats` up to `struct_size`, which the caller has set. A program built against a smaller
    /// struct than the library's gets the fields that it knows. One with a larger struct learns from
    /// `struct_size` where the filled part ends. Returns 0; or EINVAL if `struct_size` leaves no room
    /// for any field.
    pub fn loft_stats(stats: *mut loft_stats_t) -> c_int;

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
    pub fn loft_thread_stats(stats: *mut loft_thread_stats_t) -> c_int;

    /// Fills up to `count` elements of `classes`: the size classes, smallest first, then the large
    /// objects. `size` is the caller's sizeof(loft_class_stats_t). Fields of a larger struct beyond the
    /// library's are zero. Returns the number of classes. Costs as much as loft_stats.
    pub fn loft_stats_classes(classes: *mut loft_class_stats_t, count: usize, size: usize) -> usize;

    /// Writes both structs to a file descriptor as text, without the addresses. Allocates nothing.
    /// Returns 0, or the error of the write; EINVAL for an unknown format.
    pub fn loft_stats_write(file: c_int, format: loft_stats_format_t) -> c_int;

    /// Writes the same to memory, as snprintf does: at most `size` bytes, the last of them a NUL.
    /// Returns the length of the whole text without the NUL; 0 for an unknown format.
    pub fn loft_stats_print(text: *mut c_char, size: usize, format: loft_stats_format_t) -> usize;
}
