//! cache/places.h: what stands behind a word has one owner at a time.

use crate::orders::Orders;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::sync::Arc;
use std::sync::Arc as StdArc;

const PLACES: usize = 2;

struct Places {
    orders: StdArc<Orders>,
    places: [AtomicU64; PLACES],
    /// What the words 1 and 2 stand for: how often it was in somebody's hands.
    uses: [UnsafeCell<u32>; 2],
}

impl Places {
    fn new(orders: &StdArc<Orders>) -> Arc<Places> {
        Arc::new(Places {
            orders: orders.clone(),
            places: [AtomicU64::new(0), AtomicU64::new(0)],
            uses: [UnsafeCell::new(0), UnsafeCell::new(0)],
        })
    }

    fn put(&self, word: u64) -> bool {
        self.places.iter().any(|place| {
            let order = self.orders.at("put word");
            place.load(self.orders.at("put look")) == 0
                && place
                    .compare_exchange(0, word, order, Ordering::Relaxed)
                    .is_ok()
        })
    }

    fn take(&self) -> Option<u64> {
        (0..PLACES).find_map(|place| {
            let word = self.places[place].load(self.orders.at("peek word"));
            (word != 0 && self.remove(place, word)).then(|| word)
        })
    }

    fn remove(&self, place: usize, word: u64) -> bool {
        let order = self.orders.at("remove word");
        self.places[place]
            .compare_exchange(word, 0, order, Ordering::Relaxed)
            .is_ok()
    }

    fn handle(&self, word: u64) {
        self.uses[word as usize - 1].with_mut(|uses| unsafe { *uses += 1 });
    }

    fn hand_in(&self, word: u64) {
        self.handle(word);
        assert!(self.put(word), "there is room for all");
    }

    fn hand_out(&self) -> u32 {
        self.take().map_or(0, |word| {
            self.handle(word);
            1
        })
    }
}

fn one_puts_two_take(orders: &StdArc<Orders>) {
    let places = Places::new(orders);
    let putter = {
        let places = places.clone();
        loom::thread::spawn(move || places.hand_in(1))
    };
    let taker = {
        let places = places.clone();
        loom::thread::spawn(move || places.hand_out())
    };
    let mut taken = places.hand_out();
    putter.join().unwrap();
    taken += taker.join().unwrap();
    taken += places.hand_out();
    assert_eq!(taken, 1, "lost, or there twice");
}

fn taken_and_put_in_again(orders: &StdArc<Orders>) {
    let places = Places::new(orders);
    places.hand_in(1);
    let passer = {
        let places = places.clone();
        loom::thread::spawn(move || {
            if let Some(word) = places.take() {
                places.hand_in(word);
            }
        })
    };
    let putter = {
        let places = places.clone();
        loom::thread::spawn(move || places.hand_in(2))
    };
    let mut taken = places.hand_out();
    passer.join().unwrap();
    putter.join().unwrap();
    taken += places.hand_out();
    taken += places.hand_out();
    assert_eq!(taken, 2, "lost, or there twice");
}

pub const SCENARIOS: &[crate::Scenario] = &[one_puts_two_take, taken_and_put_in_again];
