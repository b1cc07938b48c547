//! Statistics, as structs and as text.

use core::mem::size_of;

use loft_sys as sys;

/// Figures of the process. Fields are bytes, counts of the present, or counts since the start.
pub type Stats = sys::loft_stats_t;

/// Figures of one size class; `object_bytes` 0 stands for large objects.
pub type ClassStats = sys::loft_class_stats_t;

/// The forms of statistics as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StatsFormat {
    /// Tables for people.
    Text,
    /// One line: the fields of [`Stats`], and those of each class.
    Json,
    /// Text exposition, version 0.0.4.
    Prometheus,
}

impl StatsFormat {
    #[cfg(feature = "std")]
    fn raw(self) -> sys::loft_stats_format_t {
        match self {
            StatsFormat::Text => sys::LOFT_STATS_TEXT,
            StatsFormat::Json => sys::LOFT_STATS_JSON,
            StatsFormat::Prometheus => sys::LOFT_STATS_PROMETHEUS,
        }
    }
}

/// The figures of this moment. Allocates nothing; takes about a millisecond for each resident GiB.
///
/// ```
/// let stats = loft::stats();
/// assert!(stats.live_bytes <= stats.resident_bytes + stats.untouched_bytes);
/// ```
pub fn stats() -> Stats {
    let mut stats = Stats::default();
    stats.struct_size = size_of::<Stats>() as u64;
    // SAFETY: the struct has the size that it names.
    unsafe { sys::loft_stats(&mut stats) };
    stats
}

/// Bytes that the calling thread has allocated, less those that it has freed. `None` where threads have no
/// heaps of their own: with `owner=cpu` or `shared`.
///
/// ```
/// let before = loft::thread_net_bytes();
/// // ... some work ...
/// let kept = loft::thread_net_bytes().zip(before).map(|(now, before)| now - before);
/// # assert!(kept.is_none_or(|bytes| bytes == 0));
/// ```
pub fn thread_net_bytes() -> Option<i64> {
    let mut stats = sys::loft_thread_stats_t::default();
    stats.struct_size = size_of::<sys::loft_thread_stats_t>() as u64;
    // SAFETY: the struct has the size that it names.
    let error = unsafe { sys::loft_thread_stats(&mut stats) };
    (error == 0).then_some(stats.net_bytes)
}

/// Fills `classes` with the figures of size classes, smallest first, then of large objects. Returns how
/// many there are in all.
pub fn class_stats_into(classes: &mut [ClassStats]) -> usize {
    // SAFETY: so many structs of this size are there.
    unsafe { sys::loft_stats_classes(classes.as_mut_ptr(), classes.len(), size_of::<ClassStats>()) }
}

/// The figures of all size classes.
///
/// ```
/// let kept = vec![0u8; 100];
/// let classes = loft::class_stats();
/// assert!(classes.iter().any(|class| class.object_bytes >= 100));
/// # drop(kept);
/// ```
#[cfg(feature = "std")]
pub fn class_stats() -> std::vec::Vec<ClassStats> {
    let mut classes = std::vec![ClassStats::default(); class_stats_into(&mut [])];
    let count = class_stats_into(&mut classes);
    classes.truncate(count);
    classes
}

/// Both as text.
///
/// ```
/// use loft::{StatsFormat, stats_text};
/// assert!(stats_text(StatsFormat::Json).starts_with('{'));
/// ```
#[cfg(feature = "std")]
pub fn stats_text(format: StatsFormat) -> std::string::String {
    let mut text = std::vec::Vec::<u8>::new();
    loop {
        // SAFETY: so many bytes are there.
        let length =
            unsafe { sys::loft_stats_print(text.as_mut_ptr().cast(), text.len(), format.raw()) };
        if length < text.len() {
            text.truncate(length);
            return std::string::String::from_utf8_lossy(&text).into_owned();
        }
        // Figures that grow meanwhile are longer.
        text.resize(length + 64, 0);
    }
}
