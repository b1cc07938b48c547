//! Which code holds the memory: what the option `profile` has sampled. Files are written with the feature
//! `inspect`.
//!
//! ```
//! # #[cfg(all(feature = "std", feature = "inspect"))] {
//! loft::options::set("profile", "on")?;
//! let kept = vec![0u8; 10_000_000];
//! let path = std::env::temp_dir().join(format!("loft-doc-{}.pb.gz", std::process::id()));
//! loft::profile::write(&path)?;
//! assert!(std::fs::metadata(&path)?.len() > 0);
//! # std::fs::remove_file(&path)?;
//! # loft::options::set("profile", "off")?;
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use core::ffi::CStr;
use core::fmt;

use loft_sys as sys;

/// Why no profile was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProfileError {
    /// The option `profile` was never on.
    NeverOn,
    /// The crate has been built without its feature `inspect`, which writes profiles.
    NoInspect,
    /// The path has a NUL within it.
    BadPath,
    /// A number of the system's, about the file or about memory.
    Os(i32),
}

impl fmt::Display for ProfileError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProfileError::NeverOn => to.write_str("no profile: the option `profile` was never on"),
            ProfileError::NoInspect => to.write_str("no profile: the feature `inspect` is off"),
            ProfileError::BadPath => to.write_str("a path has no NUL within it"),
            #[cfg(feature = "std")]
            ProfileError::Os(number) => std::io::Error::from_raw_os_error(*number).fmt(to),
            #[cfg(not(feature = "std"))]
            ProfileError::Os(number) => write!(to, "error {number} of the system"),
        }
    }
}

impl core::error::Error for ProfileError {}

/// Writes the profile so far: lines of text if the name ends with `.collapsed`, otherwise the format of
/// pprof, compressed. `%p` in the path becomes the process's number.
pub fn write_c(path: &CStr) -> Result<(), ProfileError> {
    // ENODATA and ELIBACC, as Linux has them.
    const NO_DATA: i32 = 61;
    const NO_LIBRARY: i32 = 79;
    // SAFETY: the path is a text of C's.
    match unsafe { sys::loft_profile_write(path.as_ptr()) } {
        0 => Ok(()),
        NO_DATA => Err(ProfileError::NeverOn),
        NO_LIBRARY => Err(ProfileError::NoInspect),
        other => Err(ProfileError::Os(other)),
    }
}

/// The same for a path of Rust's.
#[cfg(feature = "std")]
pub fn write(path: impl AsRef<std::path::Path>) -> Result<(), ProfileError> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_ref().as_os_str().as_bytes())
        .map_err(|_| ProfileError::BadPath)?;
    write_c(&path)
}
