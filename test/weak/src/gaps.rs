//! The gaps of the window (space/window.cc): added under a lock, read without it.

use crate::orders::Orders;
use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicUsize;
use loom::sync::Arc;
use std::sync::Arc as StdArc;

const GAPS: usize = 2;

struct Window {
    orders: StdArc<Orders>,
    count: AtomicUsize,
    gaps: [UnsafeCell<usize>; GAPS],
}

impl Window {
    fn add_gap(&self, end: usize) {
        let count = self.count.load(self.orders.at("add_gap gap_count"));
        assert!(count < GAPS);
        self.gaps[count].with_mut(|gap| unsafe { *gap = end });
        self.count
            .store(count + 1, self.orders.at("add_gap new_gap_count"));
    }

    /// All gaps there are, as somebody sees them who looks for one.
    fn look(&self) {
        let count = self.count.load(self.orders.at("behind_gap gap_count"));
        for (i, gap) in self.gaps.iter().take(count).enumerate() {
            gap.with(|gap| assert_eq!(unsafe { *gap }, i + 1, "a gap that is not there yet"));
        }
    }
}

fn one_adds_one_looks(orders: &StdArc<Orders>) {
    let window = Arc::new(Window {
        orders: orders.clone(),
        count: AtomicUsize::new(0),
        gaps: Default::default(),
    });
    let looker = {
        let window = window.clone();
        loom::thread::spawn(move || window.look())
    };
    window.add_gap(1);
    window.add_gap(2);
    looker.join().unwrap();
}

pub const SCENARIOS: &[crate::Scenario] = &[one_adds_one_looks];
