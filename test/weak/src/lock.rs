//! os/lock.h, with one look before it sleeps, as in test/model, and with the kernel's queue.

use crate::orders::Orders;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use std::sync::Arc as StdArc;

const FREE: u32 = 0;
const HELD: u32 = 1;
const HELD_WITH_SLEEPERS: u32 = 2;

/// The system's sleeping queue of one word. It orders more than the kernel promises; that is why
/// scenarios also have ways on which nobody sleeps.
pub struct Futex {
    mutex: Mutex<()>,
    queue: Condvar,
}

impl Futex {
    pub fn new() -> Futex {
        Futex {
            mutex: Mutex::new(()),
            queue: Condvar::new(),
        }
    }

    /// The kernel compares with the newest value, hence the update.
    pub fn wait(&self, word: &AtomicU32, expected: u32) {
        let guard = self.mutex.lock().unwrap();
        if word.fetch_add(0, Ordering::Relaxed) == expected {
            drop(self.queue.wait(guard).unwrap());
        }
    }

    pub fn wake_one(&self) {
        let _guard = self.mutex.lock().unwrap();
        self.queue.notify_one();
    }
}

impl Default for Futex {
    fn default() -> Futex {
        Futex::new()
    }
}

struct Lock {
    orders: StdArc<Orders>,
    word: AtomicU32,
    futex: Futex,
    guarded: UnsafeCell<u32>,
}

impl Lock {
    fn new(orders: &StdArc<Orders>) -> Arc<Lock> {
        Arc::new(Lock {
            orders: orders.clone(),
            word: AtomicU32::new(FREE),
            futex: Futex::new(),
            guarded: UnsafeCell::new(0),
        })
    }

    fn take_if_free(&self, name: &str) -> bool {
        let order = self.orders.at(name);
        self.word
            .compare_exchange(FREE, HELD, order, Ordering::Relaxed)
            .is_ok()
    }

    fn lock(&self) {
        if self.take_if_free("lock word") {
            return;
        }
        if self.word.load(self.orders.at("lock_contended look")) == FREE
            && self.take_if_free("lock_contended take")
        {
            return;
        }
        let order = self.orders.at("lock_contended wait");
        while self.word.swap(HELD_WITH_SLEEPERS, order) != FREE {
            self.futex.wait(&self.word, HELD_WITH_SLEEPERS);
        }
    }

    fn unlock(&self) {
        if self.word.swap(FREE, self.orders.at("unlock word")) == HELD_WITH_SLEEPERS {
            self.futex.wake_one();
        }
    }

    fn inside(&self) {
        self.guarded.with_mut(|guarded| unsafe { *guarded += 1 });
    }

    fn take(&self) {
        self.lock();
        self.inside();
        self.unlock();
    }

    fn try_to_take(&self) -> u32 {
        if !self.take_if_free("try_lock word") {
            return 0;
        }
        self.inside();
        self.unlock();
        1
    }

    fn finish(&self, expected: u32) {
        self.lock();
        self.guarded
            .with(|guarded| assert_eq!(unsafe { *guarded }, expected));
    }
}

fn three_take(orders: &StdArc<Orders>) {
    let lock = Lock::new(orders);
    let other = || {
        let lock = lock.clone();
        loom::thread::spawn(move || lock.take())
    };
    let others = [other(), other()];
    lock.take();
    for other in others {
        other.join().unwrap();
    }
    lock.finish(3);
}

fn one_takes_and_one_tries(orders: &StdArc<Orders>) {
    let lock = Lock::new(orders);
    let other = {
        let lock = lock.clone();
        loom::thread::spawn(move || lock.take())
    };
    let taken = lock.try_to_take();
    other.join().unwrap();
    lock.finish(1 + taken);
}

pub const SCENARIOS: &[crate::Scenario] = &[three_take, one_takes_and_one_tries];
