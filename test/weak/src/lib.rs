//! loft's lock-free protocols, transliterated for loom, which explores the orders that the C++ memory
//! model allows: every interleaving, and every value that a load may return. test/model explores the
//! C++ code itself under a memory model of its own; this is the second opinion, and knows fences.
//!
//! Every order comes from `orders.txt`, which a test compares with the sources; so a model is that of
//! the code as it is. Each weaker order of that table is a seeded bug, which must be found.

pub mod inbox;
pub mod lock;
pub mod orders;
pub mod room;
pub mod sources;
pub mod take_over;

use orders::Orders;
use std::sync::Arc;

/// One small program for the checker.
pub type Scenario = fn(&Arc<Orders>);

/// For every seeded bug two are enough, and what holds is explored with one more.
pub const FEW_PREEMPTIONS: usize = 2;
pub const MANY_PREEMPTIONS: usize = 3;

/// Every execution with at most so many preemptions.
pub fn explore(scenario: Scenario, orders: &Arc<Orders>, preemptions: usize) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    let orders = orders.clone();
    builder.check(move || scenario(&orders));
}

/// Whether the checker objects to one of them. In a thread of its own, as loom leaves some state
/// behind where it stops.
pub fn finds_a_bug(scenarios: &[Scenario], orders: &Arc<Orders>) -> bool {
    scenarios.iter().any(|scenario| {
        let scenario = *scenario;
        let orders = orders.clone();
        std::thread::Builder::new()
            .name(EXPECTED.into())
            .spawn(move || explore(scenario, &orders, FEW_PREEMPTIONS))
            .unwrap()
            .join()
            .is_err()
    })
}

/// The threads whose panics are no news.
pub const EXPECTED: &str = "seeded bug";
