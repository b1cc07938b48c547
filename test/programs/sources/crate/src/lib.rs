//! Word counts by many threads, to give the compiler generics and the program allocations.

use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc;
use std::thread;

/// Numbers that look random and are the same everywhere.
pub struct Stream(pub u64);

impl Iterator for Stream {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        Some(self.0 >> 33)
    }
}

pub fn words(seed: u64, count: usize) -> Vec<String> {
    Stream(seed)
        .take(count)
        .map(|n| format!("{:x}", n % 5000).repeat((n % 3 + 1) as usize))
        .collect()
}

/// Strings made by the producers are freed here, by the thread that counts them.
pub fn count(producers: u64, per_producer: usize) -> BTreeMap<String, usize> {
    let (sender, receiver) = mpsc::channel::<Vec<String>>();
    let threads: Vec<_> = (1..=producers)
        .map(|seed| {
            let sender = sender.clone();
            thread::spawn(move || {
                for part in 0..10 {
                    sender.send(words(seed * 100 + part, per_producer / 10)).unwrap();
                }
            })
        })
        .collect();
    drop(sender);
    let mut counts = HashMap::<String, usize>::new();
    for batch in receiver {
        for word in batch {
            *counts.entry(word).or_default() += 1;
        }
    }
    for thread in threads {
        thread.join().unwrap();
    }
    counts.into_iter().collect()
}
