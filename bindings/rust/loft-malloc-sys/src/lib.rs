//! The memory allocator [loft](https://crates.io/crates/loft-malloc), compiled from one file of C++,
//! and its C interface as it stands in `loft/loft.h`. The crate `loft-malloc` is the safe one.
//!
//! The compiler must know C++20 (g++ 11, clang 14). Nothing of the C++ library is linked.
//!
//! Features:
//! - `override`: `malloc`, `free`, `operator new` and their relatives are loft's in the whole program, for
//!   what is written in C and C++. Without it they stay the C library's, beside loft.
//! - `initial-exec`: a library made with this crate (`cdylib`) reaches its thread-local variables without
//!   a call. It may then not be opened with `dlopen`. In a program it makes hardly a difference.
//!
//! A build script of a crate that links to this one finds the folder of the header in `DEP_LOFT_INCLUDE`.
//!
//! ```
//! // SAFETY: the object is freed once, and not used afterwards.
//! unsafe {
//!     let object = loft_sys::loft_malloc(100);
//!     assert!(loft_sys::loft_malloc_usable_size(object) >= 100);
//!     loft_sys::loft_free(object);
//! }
//! ```
#![no_std]
#![allow(non_camel_case_types)]

#[rustfmt::skip]
#[allow(clippy::doc_lazy_continuation)]
mod bindings;

pub use bindings::*;
