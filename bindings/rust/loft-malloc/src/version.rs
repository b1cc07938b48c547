//! Which loft this is.

use core::fmt;

use loft_sys as sys;

/// The version of the library: that of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Changes when the interface changes incompatibly.
    pub major: u16,
    /// Grows with new features.
    pub minor: u16,
    /// Grows with corrections.
    pub patch: u16,
}

impl fmt::Display for Version {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// The version of the library that runs.
///
/// ```
/// assert_eq!(loft::version().to_string(), loft::sys::LOFT_VERSION_STRING);
/// ```
pub fn version() -> Version {
    // SAFETY: nothing is asked of the caller.
    let number = unsafe { sys::loft_version() } as u32;
    Version {
        major: (number / 10_000) as u16,
        minor: (number / 100 % 100) as u16,
        patch: (number % 100) as u16,
    }
}
