//! Memory that goes back to the system.

use loft_sys as sys;

/// What [`purge`] did, and could not reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Purged {
    /// Bytes that went back to the system.
    pub bytes: u64,
    /// Other threads with objects in their caches, which only they can empty: [`idle_begin`].
    pub unreached_threads: u64,
    /// Approximate bytes in these caches.
    pub unreached_bytes: u64,
}

/// Purges all free memory, except in heaps that are at work at that moment and in the caches of other
/// threads.
pub fn purge() -> Purged {
    let mut unreached = sys::loft_unreached_t::default();
    // SAFETY: the struct is there.
    let bytes = unsafe { sys::loft_purge(&mut unreached) };
    Purged {
        bytes,
        unreached_threads: unreached.threads,
        unreached_bytes: unreached.bytes,
    }
}

/// Purges all free memory except about `pad` bytes. True if any went back.
pub fn trim(pad: usize) -> bool {
    // SAFETY: nothing is asked of the caller.
    unsafe { sys::loft_malloc_trim(pad) != 0 }
}

/// Before a wait that may be long: empties the calling thread's caches, which nobody else can do. The
/// thread may go on to allocate at once.
pub fn idle_begin() {
    // SAFETY: nothing is asked of the caller.
    unsafe { sys::loft_idle_begin() }
}

/// After the wait. Need not be called.
pub fn idle_end() {
    // SAFETY: nothing is asked of the caller.
    unsafe { sys::loft_idle_end() }
}

/// Waits as `wait` does, with the thread's caches empty.
///
/// ```
/// # let (sender, receiver) = std::sync::mpsc::channel();
/// # sender.send(1).unwrap();
/// let request = loft::idle(|| receiver.recv());
/// # assert_eq!(request, Ok(1));
/// ```
pub fn idle<R>(wait: impl FnOnce() -> R) -> R {
    idle_begin();
    let result = wait();
    idle_end();
    result
}
