//! room/magazines.cc's calls, and the room's sleep (room/room.cc): nothing is slept over. A thread
//! calls, and wakes; the room falls asleep, and looks once more. If neither sees the other, nobody
//! wakes the room, and the checker finds a thread that waits for ever.

use crate::lock::Futex;
use crate::orders::Orders;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{fence, AtomicU32, AtomicUsize, Ordering};
use loom::sync::Arc;
use std::sync::Arc as StdArc;

const AWAKE: u32 = 4;
const ASLEEP: u32 = 5;

const NOBODY: usize = 0;

#[derive(Default)]
struct Caller {
    calls: AtomicUsize,
    next: UnsafeCell<usize>,
    /// Of two classes: what the room is to find. Without an order, so that it is the call that tells.
    slots: [AtomicU32; 2],
}

struct Room {
    orders: StdArc<Orders>,
    state: AtomicU32,
    futex: Futex,
    /// The first of those that call: its place in `callers`, from 1 on.
    calling: AtomicUsize,
    callers: Vec<Caller>,
}

impl Room {
    fn new(orders: &StdArc<Orders>, callers: usize) -> Arc<Room> {
        Arc::new(Room {
            orders: orders.clone(),
            state: AtomicU32::new(AWAKE),
            futex: Futex::new(),
            calling: AtomicUsize::new(NOBODY),
            callers: (0..callers).map(|_| Caller::default()).collect(),
        })
    }

    fn call(&self, who: usize, class: usize) {
        let caller = &self.callers[who - 1];
        caller.slots[class].store(1, Ordering::Relaxed);
        if caller
            .calls
            .fetch_or(1 << class, self.orders.at("call calls"))
            == 0
        {
            let mut first = self.calling.load(self.orders.at("call calling"));
            loop {
                caller.next.with_mut(|next| unsafe { *next = first });
                let order = self.orders.at("call new_calling");
                match self
                    .calling
                    .compare_exchange_weak(first, who, order, Ordering::Relaxed)
                {
                    Ok(_) => break,
                    Err(there) => first = there,
                }
            }
        }
        self.wake();
    }

    fn wake(&self) {
        fence(self.orders.at("wake fence"));
        if self.state.load(self.orders.at("wake state")) != ASLEEP {
            return;
        }
        let order = self.orders.at("wake new_state");
        if self
            .state
            .compare_exchange(ASLEEP, AWAKE, order, Ordering::Relaxed)
            .is_ok()
        {
            self.futex.wake_one();
        }
    }

    fn sleep(&self) {
        let order = self.orders.at("sleep new_state");
        let fell = self
            .state
            .compare_exchange(AWAKE, ASLEEP, order, Ordering::Relaxed);
        assert!(fell.is_ok(), "nobody else changes what is awake");
        fence(self.orders.at("sleep fence"));
        if self.calling.load(self.orders.at("anybody_calls calling")) != NOBODY {
            self.wake();
        }
        while self.state.load(self.orders.at("sleep state")) == ASLEEP {
            self.futex.wait(&self.state, ASLEEP);
        }
    }

    /// Returns the next one, and how many slots were served.
    fn serve(&self, who: usize) -> (usize, u32) {
        let caller = &self.callers[who - 1];
        let next = caller.next.with(|next| unsafe { *next });
        let calls = caller.calls.swap(0, self.orders.at("serve calls"));
        let of_class = |class: usize| {
            if calls & 1 << class == 0 {
                return 0;
            }
            assert_eq!(
                caller.slots[class].load(Ordering::Relaxed),
                1,
                "called for nothing"
            );
            1
        };
        (next, of_class(0) + of_class(1))
    }

    /// Until so many slots were served.
    fn run(&self, slots: u32) {
        let mut served = 0;
        loop {
            let mut caller = self
                .calling
                .swap(NOBODY, self.orders.at("take_calls calling"));
            while caller != NOBODY {
                let (next, count) = self.serve(caller);
                served += count;
                caller = next;
            }
            if served == slots {
                return;
            }
            self.sleep();
        }
    }
}

fn one_calls_twice(orders: &StdArc<Orders>) {
    let room = Room::new(orders, 1);
    let caller = {
        let room = room.clone();
        loom::thread::spawn(move || {
            room.call(1, 0);
            room.call(1, 1);
        })
    };
    room.run(2);
    caller.join().unwrap();
}

fn two_call(orders: &StdArc<Orders>) {
    let room = Room::new(orders, 2);
    for who in 1..=2 {
        let room = room.clone();
        loom::thread::spawn(move || room.call(who, 0));
    }
    room.run(2);
}

pub const SCENARIOS: &[crate::Scenario] = &[one_calls_twice, two_call];
