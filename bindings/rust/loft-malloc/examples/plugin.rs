//! A library for programs that are not written in Rust, with loft inside: the program keeps its own malloc,
//! and sees none of loft's names. It may be opened with `dlopen`.

use std::ffi::{CStr, c_char};

#[global_allocator]
static GLOBAL: loft::Loft = loft::Loft;

/// How many different words are in a text.
///
/// # Safety
///
/// `text` is one of C's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plugin_count_words(text: *const c_char) -> usize {
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    let words: std::collections::HashSet<String> =
        text.split_whitespace().map(str::to_lowercase).collect();
    words.len()
}

/// The bytes that this library has allocated now.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_live_bytes() -> u64 {
    loft::stats().live_bytes
}
