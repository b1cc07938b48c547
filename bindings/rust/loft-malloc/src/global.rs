//! The process's heap.

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::c_void;
use core::ptr::NonNull;

use loft_sys as sys;

/// What every object has, however it was requested.
pub(crate) const ALIGNED: usize = 16;

/// The process's heap. A value without content: all of them are the same heap.
///
/// ```
/// # use loft::Loft;
/// #[global_allocator]
/// static GLOBAL: Loft = Loft;
/// # fn main() {
/// # let before = loft::stats().live_bytes;
/// let kept = vec![1u8; 100_000];
/// assert!(loft::stats().live_bytes >= before + 100_000);
/// # drop(kept);
/// # }
/// ```
///
/// It uses what a [`Layout`] says. `dealloc` hands the size on, and the hardened modes check it. `realloc`
/// keeps the alignment, grows in place where it can, and moves pages instead of bytes where objects are
/// large. `alloc_zeroed` clears nothing that is known to be zero.
///
/// An allocation that fails gives null, as [`GlobalAlloc`] has it; a collection then calls
/// [`handle_alloc_error`](https://doc.rust-lang.org/alloc/alloc/fn.handle_alloc_error.html).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Loft;

impl Loft {
    /// How many bytes an object of `layout` has in truth. To ask for as many costs no more memory: whoever
    /// grows by himself may round his capacity up to it.
    ///
    /// ```
    /// # use std::alloc::Layout;
    /// let layout = Layout::from_size_align(1000, 8).unwrap();
    /// assert!(loft::Loft.good_size(layout) >= 1000);
    /// ```
    #[inline]
    pub fn good_size(self, layout: Layout) -> usize {
        // SAFETY: any size may be asked about.
        unsafe {
            if layout.align() <= ALIGNED {
                sys::loft_good_size(layout.size())
            } else {
                sys::loft_aligned_good_size(layout.align(), layout.size())
            }
        }
    }

    /// Gives an object another size where it is, larger or smaller, or leaves it as it was.
    ///
    /// # Safety
    ///
    /// `object` is loft's and allocated, nobody else resizes or frees it meanwhile, and nobody uses what
    /// lies beyond the new size. If the result is true, whoever frees it must name the new size.
    #[inline]
    pub unsafe fn expand(self, object: NonNull<u8>, size: usize) -> bool {
        // SAFETY: the caller's promise is what the function asks for.
        unsafe { sys::loft_expand(object.as_ptr().cast(), size) != 0 }
    }

    /// The bytes of an object that may be used: at least as many as were requested.
    ///
    /// # Safety
    ///
    /// `object` is loft's, and allocated.
    #[inline]
    pub unsafe fn usable_size(self, object: NonNull<u8>) -> usize {
        // SAFETY: the caller's promise is what the function asks for.
        unsafe { sys::loft_malloc_usable_size(object.as_ptr().cast()) }
    }
}

// SAFETY: loft's objects do not overlap, stay until they are freed, and lie at multiples of 16 or of the
// alignment that was asked for. Its functions do not unwind, may be called by any thread, and allocate
// nothing by way of Rust. A size of zero, which a caller must not ask for, would be served, too.
unsafe impl GlobalAlloc for Loft {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: a layout's alignment is a power of two.
        let object: *mut c_void = unsafe {
            if layout.align() <= ALIGNED {
                sys::loft_malloc(layout.size())
            } else {
                sys::loft_aligned_alloc(layout.align(), layout.size())
            }
        };
        object.cast()
    }

    #[inline]
    unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
        // SAFETY: the caller has the object from here, with this layout: its size is the one that was
        // requested last, and its alignment chose the same functions then.
        unsafe {
            if layout.align() <= ALIGNED {
                sys::loft_free_sized(object.cast(), layout.size());
            } else {
                sys::loft_free_aligned_sized(object.cast(), layout.align(), layout.size());
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in alloc.
        let object: *mut c_void = unsafe {
            if layout.align() <= ALIGNED {
                sys::loft_calloc(1, layout.size())
            } else {
                sys::loft_aligned_calloc(layout.align(), 1, layout.size())
            }
        };
        object.cast()
    }

    #[inline]
    unsafe fn realloc(&self, object: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller has the object from here, and asks for more than no bytes, for which
        // loft_realloc would free it. On failure the object stays as it is.
        let object: *mut c_void = unsafe {
            if layout.align() <= ALIGNED {
                sys::loft_realloc(object.cast(), new_size)
            } else {
                sys::loft_aligned_realloc(object.cast(), layout.align(), new_size)
            }
        };
        object.cast()
    }
}
