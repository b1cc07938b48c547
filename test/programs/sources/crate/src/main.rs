fn main() {
    let counts = meadow::count(4, 100_000);
    let total: usize = counts.values().sum();
    let mixed = counts
        .iter()
        .fold(0u64, |hash, (word, n)| hash.wrapping_mul(31).wrapping_add((word.len() * n) as u64));
    println!("{} words, {} different, {:016x}", total, counts.len(), mixed);
    for (word, n) in counts.iter().take(5) {
        println!("{word} {n}");
    }
}
