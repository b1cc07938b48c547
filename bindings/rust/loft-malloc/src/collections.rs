//! allocator_api2's `Allocator`, for the process's heap and for heaps of the program's own.
//!
//! Objects are requested with the size that they have in truth, which collections may then use. Whoever
//! frees one may name any size from the requested one up to that, so frees go without a size here.

use core::alloc::Layout;
use core::ffi::c_void;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};
use loft_sys as sys;

use crate::global::ALIGNED;
use crate::{Heap, Loft};

/// What the two kinds of heap differ in. Sizes are not zero, and alignments powers of two.
///
/// # Safety
///
/// Objects are as the C interface promises, and stay valid as long as the heap.
unsafe trait Source {
    fn good(&self, layout: Layout) -> usize;
    fn take(&self, align: usize, size: usize) -> *mut c_void;
    fn take_zeroed(&self, align: usize, size: usize) -> *mut c_void;
    /// # Safety
    /// The object is this heap's. It is gone unless the result is null.
    unsafe fn resize(&self, object: NonNull<u8>, align: usize, size: usize) -> *mut c_void;
    /// # Safety
    /// As above, and `object` is aligned as its next layout says.
    unsafe fn resize_in_place(&self, object: NonNull<u8>, size: usize) -> bool;
    /// # Safety
    /// The object is this heap's, and nobody uses it afterwards.
    unsafe fn give_back(&self, object: NonNull<u8>);
}

// SAFETY: there is one heap of the process, which stays.
unsafe impl Source for Loft {
    #[inline]
    fn good(&self, layout: Layout) -> usize {
        self.good_size(layout)
    }
    #[inline]
    fn take(&self, align: usize, size: usize) -> *mut c_void {
        // SAFETY: the alignment is a power of two.
        unsafe {
            if align <= ALIGNED {
                sys::loft_malloc(size)
            } else {
                sys::loft_aligned_alloc(align, size)
            }
        }
    }
    #[inline]
    fn take_zeroed(&self, align: usize, size: usize) -> *mut c_void {
        // SAFETY: as above.
        unsafe {
            if align <= ALIGNED {
                sys::loft_calloc(1, size)
            } else {
                sys::loft_aligned_calloc(align, 1, size)
            }
        }
    }
    #[inline]
    unsafe fn resize(&self, object: NonNull<u8>, align: usize, size: usize) -> *mut c_void {
        // SAFETY: the caller's promise.
        unsafe {
            if align <= ALIGNED {
                sys::loft_realloc(object.as_ptr().cast(), size)
            } else {
                sys::loft_aligned_realloc(object.as_ptr().cast(), align, size)
            }
        }
    }
    #[inline]
    unsafe fn resize_in_place(&self, object: NonNull<u8>, size: usize) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.expand(object, size) }
    }
    #[inline]
    unsafe fn give_back(&self, object: NonNull<u8>) {
        // SAFETY: the caller's promise.
        unsafe { sys::loft_free(object.as_ptr().cast()) }
    }
}

// SAFETY: a heap is not moved in memory when its handle is, and is destroyed when that is dropped.
unsafe impl Source for Heap<'_> {
    #[inline]
    fn good(&self, layout: Layout) -> usize {
        if layout.align() <= ALIGNED {
            self.good_size(layout.size())
        } else {
            layout.size()
        }
    }
    #[inline]
    fn take(&self, align: usize, size: usize) -> *mut c_void {
        // SAFETY: the heap exists, and the alignment is a power of two.
        unsafe {
            if align <= ALIGNED {
                sys::loft_heap_malloc(self.as_ptr(), size)
            } else {
                sys::loft_heap_aligned_alloc(self.as_ptr(), align, size)
            }
        }
    }
    #[inline]
    fn take_zeroed(&self, align: usize, size: usize) -> *mut c_void {
        // SAFETY: as above.
        unsafe {
            if align <= ALIGNED {
                sys::loft_heap_calloc(self.as_ptr(), 1, size)
            } else {
                sys::loft_heap_aligned_calloc(self.as_ptr(), align, 1, size)
            }
        }
    }
    #[inline]
    unsafe fn resize(&self, object: NonNull<u8>, align: usize, size: usize) -> *mut c_void {
        // SAFETY: the caller's promise.
        unsafe { self.realloc(object, align, size) }
            .map_or(core::ptr::null_mut(), |moved| moved.as_ptr().cast())
    }
    #[inline]
    unsafe fn resize_in_place(&self, object: NonNull<u8>, size: usize) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.expand(object, size) }
    }
    #[inline]
    unsafe fn give_back(&self, object: NonNull<u8>) {
        // SAFETY: the caller's promise.
        unsafe { self.free(object) }
    }
}

type Block = Result<NonNull<[u8]>, AllocError>;

#[inline]
fn block(object: *mut c_void, size: usize) -> Block {
    let object = NonNull::new(object.cast::<u8>()).ok_or(AllocError)?;
    Ok(NonNull::slice_from_raw_parts(object, size))
}

/// No bytes: of no heap, and never freed.
#[inline]
fn nothing(layout: Layout) -> NonNull<[u8]> {
    let address = core::ptr::without_provenance_mut(layout.align());
    // SAFETY: an alignment is not zero.
    NonNull::slice_from_raw_parts(unsafe { NonNull::new_unchecked(address) }, 0)
}

#[inline]
fn allocate(source: &impl Source, layout: Layout, zeroed: bool) -> Block {
    if layout.size() == 0 {
        return Ok(nothing(layout));
    }
    let size = source.good(layout);
    let object = if zeroed {
        source.take_zeroed(layout.align(), size)
    } else {
        source.take(layout.align(), size)
    };
    block(object, size)
}

/// # Safety
/// `object` is of `old` and of this heap, or of no bytes.
#[inline]
unsafe fn resize(source: &impl Source, object: NonNull<u8>, old: Layout, new: Layout) -> Block {
    if old.size() == 0 {
        return allocate(source, new, false);
    }
    if new.size() == 0 {
        // SAFETY: the caller's promise.
        unsafe { source.give_back(object) };
        return Ok(nothing(new));
    }
    let size = source.good(new);
    let stays = object.as_ptr().addr() % new.align() == 0;
    // SAFETY: the caller's promise; the object is aligned for what comes.
    if stays && unsafe { source.resize_in_place(object, size) } {
        return Ok(NonNull::slice_from_raw_parts(object, size));
    }
    // SAFETY: the caller's promise.
    block(unsafe { source.resize(object, new.align(), size) }, size)
}

/// # Safety
/// As [`resize`]. `new` is not shorter than `old`.
#[inline]
unsafe fn grow_zeroed(
    source: &impl Source,
    object: NonNull<u8>,
    old: Layout,
    new: Layout,
) -> Block {
    if old.size() == 0 {
        return allocate(source, new, true);
    }
    // SAFETY: the caller's promise.
    let block = unsafe { resize(source, object, old, new)? };
    // SAFETY: the block has so many bytes, which are the caller's.
    unsafe {
        let rest = block.cast::<u8>().add(old.size());
        rest.write_bytes(0, block.len() - old.size());
    }
    Ok(block)
}

macro_rules! allocator {
    ($kind:ty, $why:literal) => {
        #[doc = $why]
        // SAFETY: blocks are objects of the heap, which stay where they are until they are freed or the
        // heap is dropped, and copies of its handle are references to it.
        unsafe impl Allocator for $kind {
            #[inline]
            fn allocate(&self, layout: Layout) -> Block {
                allocate(self, layout, false)
            }
            #[inline]
            fn allocate_zeroed(&self, layout: Layout) -> Block {
                allocate(self, layout, true)
            }
            #[inline]
            unsafe fn deallocate(&self, object: NonNull<u8>, layout: Layout) {
                if layout.size() != 0 {
                    // SAFETY: the caller has the object from here.
                    unsafe { self.give_back(object) }
                }
            }
            #[inline]
            unsafe fn grow(&self, object: NonNull<u8>, old: Layout, new: Layout) -> Block {
                debug_assert!(new.size() >= old.size());
                // SAFETY: the caller has the object from here, with this layout.
                unsafe { resize(self, object, old, new) }
            }
            #[inline]
            unsafe fn grow_zeroed(&self, object: NonNull<u8>, old: Layout, new: Layout) -> Block {
                debug_assert!(new.size() >= old.size());
                // SAFETY: as above.
                unsafe { grow_zeroed(self, object, old, new) }
            }
            #[inline]
            unsafe fn shrink(&self, object: NonNull<u8>, old: Layout, new: Layout) -> Block {
                debug_assert!(new.size() <= old.size());
                // SAFETY: as above.
                unsafe { resize(self, object, old, new) }
            }
        }
    };
}

allocator!(Loft, "For collections in the process's heap.");
allocator!(
    Heap<'_>,
    "For collections in this heap: `Vec::new_in(&heap)`. One that has the heap itself destroys it at its end."
);
