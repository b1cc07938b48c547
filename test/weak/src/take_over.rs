//! A heap is made, takes a slab over (heap/take_over.cc, with heap/registry.cc and space/pagemap.h),
//! and whoever learns of it by the slab's entry, or by the number of heaps, finds it made.

use crate::orders::Orders;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use std::sync::Arc as StdArc;

const MADE: usize = 7;

struct Heaps {
    orders: StdArc<Orders>,
    count: AtomicUsize,
    directory: AtomicUsize,
    /// The new heap's inbox, as its constructor left it.
    inbox: UnsafeCell<usize>,
    entry: AtomicUsize,
    /// Of the slab's first owner, held while the slab changes hands.
    lock: Mutex<()>,
}

impl Heaps {
    fn create(&self) {
        self.inbox.with_mut(|inbox| unsafe { *inbox = MADE });
        self.directory.store(1, self.orders.at("create directory"));
        self.count.store(2, self.orders.at("create heap_count"));
    }

    fn take_over(&self) {
        let _guard = self.lock.lock().unwrap();
        self.entry.store(2, self.orders.at("shared_store entry"));
    }

    fn deliver(&self) {
        if self.entry.load(self.orders.at("acquire_load entry")) == 2 {
            self.expect_made(self.directory.load(self.orders.at("deliver directory")));
        }
    }

    fn look_for_heaps(&self) {
        if self.count.load(self.orders.at("count heap_count")) == 2 {
            self.expect_made(self.directory.load(self.orders.at("at directory")));
        }
    }

    fn expect_made(&self, place: usize) {
        assert_eq!(place, 1, "a heap that is known is nowhere");
        self.inbox.with(|inbox| assert_eq!(unsafe { *inbox }, MADE));
    }
}

fn one_sends_one_looks(orders: &StdArc<Orders>) {
    let heaps = Arc::new(Heaps {
        orders: orders.clone(),
        count: AtomicUsize::new(1),
        directory: AtomicUsize::new(0),
        inbox: UnsafeCell::new(0),
        entry: AtomicUsize::new(1),
        lock: Mutex::new(()),
    });
    let sender = {
        let heaps = heaps.clone();
        loom::thread::spawn(move || heaps.deliver())
    };
    let looker = {
        let heaps = heaps.clone();
        loom::thread::spawn(move || heaps.look_for_heaps())
    };
    heaps.create();
    heaps.take_over();
    sender.join().unwrap();
    looker.join().unwrap();
    assert_eq!(heaps.entry.load(Ordering::Relaxed), 2);
}

pub const SCENARIOS: &[crate::Scenario] = &[one_sends_one_looks];
