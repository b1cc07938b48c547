//! remote/inbox.h: many producers, consumers in turn under the heap's lock.
//!
//! A link is (tag, next); that of the last message names the message itself. Message 0 is the stub.

use crate::orders::Orders;
use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicUsize;
use loom::sync::{Arc, Mutex};
use std::sync::Arc as StdArc;

const STUB: usize = 0;
const MESSAGES: usize = 5;

const fn link(tag: usize, next: usize) -> usize {
    tag << 8 | next
}
const fn next_in(link: usize) -> usize {
    link & 0xff
}
const fn tag_in(link: usize) -> usize {
    link >> 8
}
const fn tag_of(message: usize) -> usize {
    message + 10
}

struct Message {
    link: AtomicUsize,
    payload: UnsafeCell<usize>,
}

/// What the lock guards.
struct Consumer {
    stub_queued: bool,
    received: Vec<usize>,
}

struct Inbox {
    orders: StdArc<Orders>,
    back: AtomicUsize,
    front: AtomicUsize,
    messages: Vec<Message>,
    lock: Mutex<Consumer>,
}

impl Inbox {
    fn new(orders: &StdArc<Orders>) -> Arc<Inbox> {
        // Memory that was used for something else before: no link, and no tag.
        let message = |number| Message {
            link: AtomicUsize::new(if number == STUB {
                link(tag_of(STUB), STUB)
            } else {
                0
            }),
            payload: UnsafeCell::new(0),
        };
        Arc::new(Inbox {
            orders: orders.clone(),
            back: AtomicUsize::new(STUB),
            front: AtomicUsize::new(STUB),
            messages: (0..MESSAGES).map(message).collect(),
            lock: Mutex::new(Consumer {
                stub_queued: false,
                received: Vec::new(),
            }),
        })
    }

    fn push(&self, first: usize, last: usize) {
        let old_back = self.back.swap(last, self.orders.at("push old_back"));
        let old = &self.messages[old_back].link;
        let before = old.load(self.orders.at("push old_link"));
        old.store(link(tag_in(before), first), self.orders.at("push new_link"));
    }

    /// A chain of messages that this thread writes.
    fn send(&self, messages: &[usize]) {
        for (i, number) in messages.iter().enumerate() {
            let message = &self.messages[*number];
            message
                .payload
                .with_mut(|payload| unsafe { *payload = *number });
            message.link.store(
                link(tag_of(*number), *number),
                self.orders.at("append new_link"),
            );
            if i != 0 {
                let last = &self.messages[messages[i - 1]].link;
                let before = last.load(self.orders.at("append link"));
                let after = link(tag_in(before), *number);
                last.store(after, self.orders.at("append new_link"));
            }
        }
        self.push(messages[0], *messages.last().unwrap());
    }

    fn drain(&self, consumer: &mut Consumer) {
        let mut at = self.front.load(self.orders.at("drain front"));
        loop {
            let link = self.messages[at].link.load(self.orders.at("drain link"));
            if next_in(link) == at {
                break;
            }
            assert_eq!(tag_in(link), tag_of(at), "a message without its tag");
            if at == STUB {
                consumer.stub_queued = false;
            } else {
                // It may be used again at once.
                self.messages[at].payload.with_mut(|payload| {
                    let number = unsafe { std::mem::replace(&mut *payload, 0) };
                    assert_eq!(number, at, "a message without its payload");
                });
                consumer.received.push(at);
            }
            at = next_in(link);
        }
        self.front.store(at, self.orders.at("drain new_front"));
    }

    fn complete(&self, consumer: &mut Consumer) {
        if self.front.load(self.orders.at("complete front")) == STUB || consumer.stub_queued {
            return;
        }
        let end = link(tag_of(STUB), STUB);
        self.messages[STUB]
            .link
            .store(end, self.orders.at("end_stub link"));
        consumer.stub_queued = true;
        self.push(STUB, STUB);
    }

    fn drain_all(&self) {
        let mut consumer = self.lock.lock().unwrap();
        self.drain(&mut consumer);
        self.complete(&mut consumer);
        self.drain(&mut consumer);
    }

    fn finish(&self, messages: usize) {
        self.drain_all();
        self.drain_all();
        let mut received = self.lock.lock().unwrap().received.clone();
        received.sort_unstable();
        assert_eq!(
            received,
            (1..=messages).collect::<Vec<_>>(),
            "lost, or there twice"
        );
    }
}

fn two_producers_one_consumer(orders: &StdArc<Orders>) {
    let inbox = Inbox::new(orders);
    let producer = |messages: &'static [usize]| {
        let inbox = inbox.clone();
        loom::thread::spawn(move || inbox.send(messages))
    };
    let producers = [producer(&[1, 2]), producer(&[3])];
    inbox.drain_all();
    for producer in producers {
        producer.join().unwrap();
    }
    inbox.finish(3);
}

fn two_consumers_in_turn(orders: &StdArc<Orders>) {
    let inbox = Inbox::new(orders);
    let producer = {
        let inbox = inbox.clone();
        loom::thread::spawn(move || {
            inbox.send(&[1]);
            inbox.send(&[2]);
        })
    };
    let consumer = {
        let inbox = inbox.clone();
        loom::thread::spawn(move || inbox.drain_all())
    };
    inbox.drain_all();
    producer.join().unwrap();
    consumer.join().unwrap();
    inbox.finish(2);
}

pub const SCENARIOS: &[crate::Scenario] = &[two_producers_one_consumer, two_consumers_in_turn];
