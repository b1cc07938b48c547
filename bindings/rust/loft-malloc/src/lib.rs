//! The memory allocator loft. It is made for programs in which one thread allocates and another frees:
//! freed objects travel home in batches, one message for hundreds of them.
//!
//! ```
//! use loft::Loft;
//!
//! #[global_allocator]
//! static GLOBAL: Loft = Loft;
//!
//! fn main() {
//!     let lines: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
//!     assert!(loft::stats().live_bytes >= lines.len() as u64);
//! }
//! ```
//!
//! - [`Loft`] is the whole process's heap; [`Heap`] is one of your own, destroyed whole.
//! - [`stats()`], [`mod@options`], [`profile`], [`purge()`] and [`idle()`] look at it and steer it.
//!
//! Code in C in the same program goes on with the C library's malloc, unless the feature `override` is on:
//! then all of the program is loft's, and `#[global_allocator]` only saves the way through `malloc`.
//!
//! | feature | |
//! |---|---|
//! | `std` (default) | what takes paths, and returns `String` and `Vec`; without it the crate is `no_std` |
//! | `allocator-api2` | [`Loft`] and [`Heap`] implement [`allocator_api2`](https://docs.rs/allocator-api2)'s `Allocator`, which hashbrown and others take |
//! | `override` | `malloc` and `operator new` are loft's in the whole program |
//! | `initial-exec` | faster thread-local variables in a `cdylib`, which `dlopen` may then refuse |
//!
//! loft runs on Linux, with glibc and with musl. A C++20 compiler builds it.
#![no_std]

#[cfg(feature = "std")]
extern crate std;

#[cfg(feature = "allocator-api2")]
mod collections;
mod global;
mod heap;
pub mod options;
pub mod profile;
mod purging;
mod statistics;
mod version;

pub use global::Loft;
pub use heap::{Heap, HeapError, HeapStats};
pub use purging::{Purged, idle, idle_begin, idle_end, purge, trim};
pub use statistics::{ClassStats, Stats, StatsFormat, class_stats_into, stats, thread_net_bytes};
#[cfg(feature = "std")]
pub use statistics::{class_stats, stats_text};
pub use version::{Version, version};

/// The C interface.
pub use loft_sys as sys;
