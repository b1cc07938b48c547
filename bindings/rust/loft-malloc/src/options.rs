//! Options of the library: at run time, and of a program when it is linked.
//!
//! docs/options.md of loft lists them. Of what sets one, the first in this order counts: [`set`]; the
//! environment, `LOFT_NAME=value`; [`options!`](crate::options!); `/etc/loft.conf`; the default.
//!
//! ```
//! use loft::options::{self, OptionError};
//!
//! options::set("dirty_bytes", "64M")?;
//! let mut place = [0; 64];
//! assert_eq!(options::get_into("dirty_bytes", &mut place)?, "67108864");
//! assert_eq!(options::set("dirty_bytes", "many"), Err(OptionError::BadValue));
//! # Ok::<(), OptionError>(())
//! ```

use core::ffi::{CStr, c_int};
use core::fmt;

use loft_sys as sys;

/// Longer than any name, and than any path that the system takes.
const LONGEST: usize = 4096 + 64;

/// Why an option was not set, or not told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionError {
    /// No option has this name.
    UnknownName,
    /// The option does not take this value.
    BadValue,
    /// The option is read when the program starts, and not changed afterwards.
    FixedAtStart,
    /// The text is longer than a value, or than the place for it.
    TooLong,
    /// Another number of the system's.
    Os(i32),
}

impl OptionError {
    fn of(number: c_int) -> Self {
        // The same numbers on all systems that loft runs on.
        match number {
            1 => OptionError::FixedAtStart,
            2 => OptionError::UnknownName,
            22 => OptionError::BadValue,
            34 => OptionError::TooLong,
            other => OptionError::Os(other),
        }
    }
}

impl fmt::Display for OptionError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionError::UnknownName => to.write_str("loft has no option of this name"),
            OptionError::BadValue => to.write_str("the option does not take this value"),
            OptionError::FixedAtStart => to.write_str("the option is read at the start only"),
            OptionError::TooLong => to.write_str("the value is longer than the place for it"),
            OptionError::Os(number) => write!(to, "error {number} of the system"),
        }
    }
}

impl core::error::Error for OptionError {}

/// Calls with a copy that ends as C wants it, for which nothing is allocated.
fn with_c_text<R>(
    text: &str,
    otherwise: OptionError,
    call: impl FnOnce(&CStr) -> Result<R, OptionError>,
) -> Result<R, OptionError> {
    let mut place = [0u8; LONGEST];
    let bytes = text.as_bytes();
    if bytes.len() >= LONGEST {
        return Err(OptionError::TooLong);
    }
    place[..bytes.len()].copy_from_slice(bytes);
    match CStr::from_bytes_with_nul(&place[..=bytes.len()]) {
        Ok(text) => call(text),
        Err(_) => Err(otherwise),
    }
}

fn checked(number: c_int) -> Result<(), OptionError> {
    match number {
        0 => Ok(()),
        other => Err(OptionError::of(other)),
    }
}

/// Sets an option for the rest of the program, from text as in the environment.
pub fn set(name: &str, value: &str) -> Result<(), OptionError> {
    with_c_text(name, OptionError::UnknownName, |name| {
        with_c_text(value, OptionError::BadValue, |value| {
            // SAFETY: both are texts of C's.
            checked(unsafe { sys::loft_option_set(name.as_ptr(), value.as_ptr()) })
        })
    })
}

/// Writes the option's value to `place`, and returns it. Counts of bytes have no suffix.
pub fn get_into<'place>(name: &str, place: &'place mut [u8]) -> Result<&'place str, OptionError> {
    with_c_text(name, OptionError::UnknownName, |name| {
        let length = place.len();
        // SAFETY: the place has so many bytes.
        checked(unsafe { sys::loft_option_get(name.as_ptr(), place.as_mut_ptr().cast(), length) })
    })?;
    let text = CStr::from_bytes_until_nul(place).map_err(|_| OptionError::TooLong)?;
    text.to_str().map_err(|_| OptionError::BadValue)
}

/// The option's value.
///
/// ```
/// assert_eq!(loft::options::get("profile").as_deref(), Ok("off"));
/// ```
#[cfg(feature = "std")]
pub fn get(name: &str) -> Result<std::string::String, OptionError> {
    let mut place = [0; LONGEST];
    get_into(name, &mut place).map(Into::into)
}

/// The options that a program has when it is linked: `"name=value,name=value"`, once in the program's own
/// crate. The environment overrides them.
///
/// ```
/// loft::options!("background=on,dirty_bytes=64M");
/// # fn main() {
/// assert_eq!(loft::options::get("background").as_deref(), Ok("on"));
/// # }
/// ```
#[macro_export]
macro_rules! options {
    ($text:expr) => {
        const _: () = {
            /// A pointer to text that stays.
            #[repr(transparent)]
            pub struct Text(*const ::core::ffi::c_char);
            // SAFETY: nobody writes to a text of the program.
            unsafe impl ::core::marker::Sync for Text {}

            // SAFETY: the library's own definition of this name is weak, for the program to replace.
            #[used]
            #[unsafe(export_name = "loft_options")]
            static LOFT_OPTIONS: Text = Text(::core::concat!($text, "\0").as_ptr().cast());
        };
    };
}
