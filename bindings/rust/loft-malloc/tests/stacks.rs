//! Stacks of a profile, with the feature `inspect`. musl tells nobody where frame information lies.
#![cfg(not(target_env = "musl"))]

use loft::{options, profile};

#[global_allocator]
static GLOBAL: loft::Loft = loft::Loft;

#[inline(never)]
fn deep(left: usize, kept: &mut Vec<Vec<u8>>) {
    if left == 0 {
        kept.extend((0..1000).map(|size| vec![1; size]));
    } else {
        deep(left - 1, kept);
        std::hint::black_box(&kept);
    }
}

#[test]
fn a_profile_has_stacks() {
    let path = std::env::temp_dir().join(format!("loft-stacks-{}.collapsed", std::process::id()));
    options::set("sample_bytes", "1").unwrap();
    options::set("profile", "on").unwrap();
    let mut kept = Vec::new();
    deep(30, &mut kept);
    profile::write(path.to_str().unwrap()).unwrap();
    options::set("profile", "off").unwrap();
    let told = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let longest = told.lines().map(|line| line.matches(';').count()).max();
    assert!(longest > Some(30), "{told}");
}
