// A stack that overflows: Rust's library says so, if it found nobody to have the signal at its start.
fn recurse(depth: usize) -> usize {
    let frame = std::hint::black_box([depth; 100]);
    if depth == usize::MAX {
        return 0;
    }
    recurse(depth + 1) + frame[depth % 100]
}

fn main() {
    let kept: Vec<String> = (0..100_000).map(|i| format!("{i:>100}")).collect();
    println!("{}", std::hint::black_box(kept).len());
    println!("{}", recurse(0));
}
