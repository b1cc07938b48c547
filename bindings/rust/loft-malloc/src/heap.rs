//! Heaps of the program's own.

use core::alloc::Layout;
use core::ffi::c_void;
use core::fmt;
use core::marker::PhantomData;
use core::mem::{MaybeUninit, size_of};
use core::ptr::NonNull;

use loft_sys as sys;

use crate::global::ALIGNED;

/// A heap of the program's own: an arena whose objects may also be freed one by one. Dropped, it is gone
/// with all its objects, however many there are.
///
/// Objects cannot outlive it: a collection borrows it. It over-aligns, grows objects in place and gives
/// memory back as the process's heap does, but takes a lock for each call.
///
/// ```
/// # #[cfg(feature = "allocator-api2")] {
/// use allocator_api2::vec::Vec;
///
/// let heap = loft::Heap::new()?;
/// let mut numbers = Vec::new_in(&heap);
/// numbers.extend(0..1000);
/// assert!(heap.contains(numbers.as_ptr()));
/// # }
/// # Ok::<(), loft::HeapError>(())
/// ```
///
/// With the feature `allocator-api2`, this does not compile, because the heap is gone before the numbers:
///
/// ```compile_fail
/// use allocator_api2::vec::Vec;
///
/// let numbers = {
///     let heap = loft::Heap::new().unwrap();
///     Vec::<u32, _>::new_in(&heap)
/// };
/// drop(numbers);
/// ```
///
/// Destructors of objects whose memory goes with the heap do not run, as with [`core::mem::forget`].
///
/// After a fork, each process has a copy of the heap. Over memory that they share, one of them may use it.
pub struct Heap<'region> {
    heap: NonNull<sys::loft_heap_t>,
    // The heap has the region to itself until it is dropped.
    region: PhantomData<&'region mut [MaybeUninit<u8>]>,
}

// SAFETY: the functions of a heap may be called by any thread, and at the same time, and free what another
// thread has allocated: each takes the heap's lock. Destroying it must come alone and last, which drop's
// exclusive access ensures. A region is bytes that the heap has to itself, and these may be sent.
unsafe impl Send for Heap<'_> {}
// SAFETY: as above.
unsafe impl Sync for Heap<'_> {}

/// Why there is no heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeapError {
    /// There is no memory for it.
    NoMemory,
    /// The region has less than 256 bytes between multiples of 256.
    RegionTooSmall,
}

impl fmt::Display for HeapError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            HeapError::NoMemory => "no memory for a heap",
            HeapError::RegionTooSmall => "a heap's region needs 256 bytes between multiples of 256",
        })
    }
}

impl core::error::Error for HeapError {}

/// Figures of one heap.
pub type HeapStats = sys::loft_heap_stats_t;

impl Heap<'static> {
    /// A heap over ordinary memory, which grows on demand.
    pub fn new() -> Result<Self, HeapError> {
        // SAFETY: nothing is asked of the caller.
        let heap = unsafe { sys::loft_heap_create() };
        Self::from(heap, HeapError::NoMemory)
    }
}

impl<'region> Heap<'region> {
    /// A heap over memory of the caller's: of a device, shared, locked or static. It hands out addresses in
    /// there, and has its tables elsewhere. The region may be used again when the heap is gone.
    ///
    /// ```
    /// # use std::alloc::Layout;
    /// let mut region = vec![std::mem::MaybeUninit::uninit(); 64 << 10];
    /// let heap = loft::Heap::over(&mut region)?;
    /// let object = heap.alloc(Layout::new::<[u64; 100]>()).unwrap();
    /// assert!(heap.contains(object.as_ptr()));
    /// // More than there is:
    /// assert!(heap.alloc(Layout::new::<[u8; 65 << 10]>()).is_none());
    /// # Ok::<(), loft::HeapError>(())
    /// ```
    pub fn over(region: &'region mut [MaybeUninit<u8>]) -> Result<Self, HeapError> {
        let begin = region.as_mut_ptr() as usize;
        let usable = (begin + region.len()) / 256 * 256;
        if usable < begin.next_multiple_of(256) + 256 {
            return Err(HeapError::RegionTooSmall);
        }
        // SAFETY: nobody else can use the region as long as the heap, which borrows it.
        let heap = unsafe { sys::loft_heap_create_over(region.as_mut_ptr().cast(), region.len()) };
        Self::from(heap, HeapError::NoMemory)
    }

    fn from(heap: *mut sys::loft_heap_t, otherwise: HeapError) -> Result<Self, HeapError> {
        let heap = NonNull::new(heap).ok_or(otherwise)?;
        Ok(Heap {
            heap,
            region: PhantomData,
        })
    }

    fn raw(&self) -> *mut sys::loft_heap_t {
        self.heap.as_ptr()
    }

    /// An object of this layout; `None` without memory for it. It may have no bytes.
    #[inline]
    pub fn alloc(&self, layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: the heap exists, and an alignment is a power of two.
        let object: *mut c_void = unsafe {
            if layout.align() <= ALIGNED {
                sys::loft_heap_malloc(self.raw(), layout.size())
            } else {
                sys::loft_heap_aligned_alloc(self.raw(), layout.align(), layout.size())
            }
        };
        NonNull::new(object.cast())
    }

    /// The same, with all bytes zero.
    #[inline]
    pub fn alloc_zeroed(&self, layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: as in alloc.
        let object: *mut c_void = unsafe {
            if layout.align() <= ALIGNED {
                sys::loft_heap_calloc(self.raw(), 1, layout.size())
            } else {
                sys::loft_heap_aligned_calloc(self.raw(), layout.align(), 1, layout.size())
            }
        };
        NonNull::new(object.cast())
    }

    /// Frees an object before the heap is dropped.
    ///
    /// # Safety
    ///
    /// `object` is this heap's, and was not freed. Nobody uses it afterwards.
    #[inline]
    pub unsafe fn free(&self, object: NonNull<u8>) {
        // SAFETY: the caller's promise; the heap exists.
        unsafe { sys::loft_heap_free(self.raw(), object.as_ptr().cast()) }
    }

    /// Gives an object another size, and moves it if it must: with its first bytes, at a multiple of
    /// `align`. `None` without memory for it, and the object is as it was.
    ///
    /// # Safety
    ///
    /// As [`free`](Self::free). `align` is a power of two, and `size` not zero.
    #[inline]
    pub unsafe fn realloc(
        &self,
        object: NonNull<u8>,
        align: usize,
        size: usize,
    ) -> Option<NonNull<u8>> {
        debug_assert!(align.is_power_of_two() && size != 0);
        let object = object.as_ptr().cast();
        // SAFETY: the caller's promise; the heap exists.
        let moved: *mut c_void = unsafe {
            if align <= ALIGNED {
                sys::loft_heap_realloc(self.raw(), object, size)
            } else {
                sys::loft_heap_aligned_realloc(self.raw(), object, align, size)
            }
        };
        NonNull::new(moved.cast())
    }

    /// Gives an object another size where it is, or leaves it as it was.
    ///
    /// # Safety
    ///
    /// `object` is this heap's, and allocated; nobody uses what lies beyond the new size.
    #[inline]
    pub unsafe fn expand(&self, object: NonNull<u8>, size: usize) -> bool {
        // SAFETY: the caller's promise; the heap exists.
        unsafe { sys::loft_heap_expand(self.raw(), object.as_ptr().cast(), size) != 0 }
    }

    /// How many bytes an object has for which `size` are asked for, aligned to no more than 16.
    #[inline]
    pub fn good_size(&self, size: usize) -> usize {
        // SAFETY: the heap exists; any size may be asked about.
        unsafe { sys::loft_heap_good_size(self.raw(), size) }
    }

    /// Whether an address lies in memory that the heap has now, in an object or not.
    pub fn contains<T: ?Sized>(&self, address: *const T) -> bool {
        // SAFETY: the heap exists; any address is allowed.
        unsafe { sys::loft_heap_contains(self.raw(), address.cast()) != 0 }
    }

    /// Objects, their bytes, and what the heap has for them.
    pub fn stats(&self) -> HeapStats {
        let mut stats = HeapStats::default();
        stats.struct_size = size_of::<HeapStats>() as u64;
        // SAFETY: the heap exists, and the struct has the size that it names.
        unsafe { sys::loft_heap_stats(self.raw(), &mut stats) };
        stats
    }

    /// The heap of the C interface. It is destroyed when `self` is dropped.
    pub fn as_ptr(&self) -> *mut sys::loft_heap_t {
        self.raw()
    }
}

impl Drop for Heap<'_> {
    fn drop(&mut self) {
        // SAFETY: nobody else has the heap, and whoever borrowed it is gone.
        unsafe { sys::loft_heap_destroy(self.raw()) }
    }
}

impl fmt::Debug for Heap<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stats = self.stats();
        to.debug_struct("Heap")
            .field("live_objects", &stats.live_objects)
            .field("live_bytes", &stats.live_bytes)
            .field("capacity_bytes", &stats.capacity_bytes)
            .finish()
    }
}
