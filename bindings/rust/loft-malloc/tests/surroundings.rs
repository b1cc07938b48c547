//! Statistics, options, profile, purges and version.

use std::hint::black_box;

use loft::options::{self, OptionError};
use loft::{ClassStats, Loft, StatsFormat};

#[global_allocator]
static GLOBAL: Loft = Loft;

loft::options!("hard_limit=96G,background=off");

#[test]
fn options_of_the_program_are_in_force() {
    assert_eq!(options::get("hard_limit").as_deref(), Ok("103079215104"));
    assert_eq!(options::get("background").as_deref(), Ok("off"));
}

#[test]
fn options_are_set_and_told() {
    options::set("cache_bytes", "3M").unwrap();
    assert_eq!(options::get("cache_bytes").as_deref(), Ok("3145728"));
    let mut place = [0; 8];
    assert_eq!(options::get_into("cache_bytes", &mut place), Ok("3145728"));
    assert_eq!(
        options::get_into("cache_bytes", &mut place[..7]),
        Err(OptionError::TooLong)
    );
    assert_eq!(
        options::get_into("cache_bytes", &mut []),
        Err(OptionError::TooLong)
    );
}

#[test]
fn errors_say_what_was_wrong() {
    assert_eq!(options::set("no_such", "1"), Err(OptionError::UnknownName));
    assert_eq!(options::set("no\0such", "1"), Err(OptionError::UnknownName));
    assert_eq!(options::get("no_such"), Err(OptionError::UnknownName));
    assert_eq!(
        options::set("cache_bytes", "some"),
        Err(OptionError::BadValue)
    );
    assert_eq!(
        options::set("cache_bytes", "4M\0"),
        Err(OptionError::BadValue)
    );
    assert_eq!(options::set("owner", "cpu"), Err(OptionError::FixedAtStart));
    assert_eq!(
        options::set("cache_bytes", &"9".repeat(5000)),
        Err(OptionError::TooLong)
    );
    assert_eq!(
        OptionError::UnknownName.to_string(),
        "loft has no option of this name"
    );
}

#[test]
fn statistics_follow_what_the_program_does() {
    let before = loft::stats();
    let kept = black_box(vec![1u8; 100 << 20]);
    let after = loft::stats();
    // Other tests free less meanwhile.
    assert!(after.live_bytes >= before.live_bytes + (50 << 20));
    assert!(after.large_allocations > before.large_allocations);
    assert_eq!(after.struct_size, std::mem::size_of::<loft::Stats>() as u64);
    drop(kept);
}

#[test]
fn classes_are_listed_smallest_first() {
    // Whole cache lines: of other sizes, a young thread's objects are of the next class that is.
    let kept: Vec<Box<[u8; 64]>> = (0..1000).map(|_| Box::new([1; 64])).collect();
    let classes = loft::class_stats();
    let (large, small) = classes.split_last().unwrap();
    assert_eq!(large.object_bytes, 0);
    assert!(
        small
            .windows(2)
            .all(|two| two[0].object_bytes < two[1].object_bytes)
    );
    let of_64 = small.iter().find(|class| class.object_bytes == 64).unwrap();
    assert!(of_64.live_objects >= kept.len() as u64);
    let mut first = [ClassStats::default(); 2];
    assert_eq!(loft::class_stats_into(&mut first), classes.len());
    assert_eq!(first[1].object_bytes, small[1].object_bytes);
}

#[test]
fn texts_have_three_forms() {
    assert!(loft::stats_text(StatsFormat::Json).contains("\"live_bytes\":"));
    assert!(loft::stats_text(StatsFormat::Prometheus).contains("# TYPE loft_"));
    assert!(loft::stats_text(StatsFormat::Text).lines().count() > 5);
}

#[test]
fn memory_goes_back() {
    let kept: Vec<Vec<u8>> = (0..2000).map(|_| vec![1; 10_000]).collect();
    drop(black_box(kept));
    let purged = loft::purge();
    assert!(purged.bytes > 1 << 20, "{purged:?}");
    drop(black_box(vec![1u8; 3 << 20]));
    loft::trim(0);
    let answer = loft::idle(|| vec![1, 2, 3].len());
    assert_eq!(answer, 3);
}

#[test]
#[cfg(not(feature = "inspect"))]
fn without_inspect_there_is_no_profile() {
    use loft::profile::{self, ProfileError};
    options::set("profile", "on").unwrap();
    options::set("profile", "off").unwrap();
    assert_eq!(profile::write("/dev/null"), Err(ProfileError::NoInspect));
}

#[test]
#[cfg(feature = "inspect")]
fn a_profile_is_written() {
    use loft::profile::{self, ProfileError};
    let path = std::env::temp_dir().join(format!("loft-rust-{}.collapsed", std::process::id()));
    assert_eq!(profile::write("/a\0b"), Err(ProfileError::BadPath));
    assert_eq!(profile::write(&path), Err(ProfileError::NeverOn));
    options::set("sample_bytes", "64K").unwrap();
    options::set("profile", "on").unwrap();
    let kept: Vec<Vec<u8>> = black_box((0..1000).map(|_| vec![1; 10_000]).collect());
    profile::write(&path).unwrap();
    options::set("profile", "off").unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(text.lines().count() > 0);
    drop(kept);
    let nowhere = profile::write("/nowhere/at/all").unwrap_err();
    assert_eq!(nowhere, ProfileError::Os(2));
    assert!(nowhere.to_string().contains("No such file"));
}

#[test]
fn the_version_is_the_crates() {
    assert_eq!(loft::version().to_string(), env!("CARGO_PKG_VERSION"));
    assert_eq!(loft::sys::LOFT_VERSION_STRING, env!("CARGO_PKG_VERSION"));
}

#[test]
fn the_malloc_of_code_in_c_is_lofts_only_if_asked() {
    unsafe extern "C" {
        fn strdup(text: *const std::ffi::c_char) -> *mut std::ffi::c_void;
        fn free(object: *mut std::ffi::c_void);
    }
    // SAFETY: the object is freed once; any address may be asked about.
    unsafe {
        let object = black_box(strdup(c"a string".as_ptr()));
        let start = loft::sys::loft_object_start(object.byte_add(5));
        free(object);
        assert_eq!(start == object, cfg!(feature = "override"));
    }
}
