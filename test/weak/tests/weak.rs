//! The protocols hold under the sources' orders; no order is stronger than it has to be, or the
//! table says why; and the table is the sources'.

use loft_weak::orders::{Orders, Table};
use loft_weak::{explore, finds_a_bug, inbox, lock, room, sources, take_over};
use loft_weak::{Scenario, EXPECTED, FEW_PREEMPTIONS, MANY_PREEMPTIONS};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

const PROTOCOLS: [&[Scenario]; 4] = [
    inbox::SCENARIOS,
    lock::SCENARIOS,
    room::SCENARIOS,
    take_over::SCENARIOS,
];

fn holds(scenarios: &[Scenario]) {
    explore_all(scenarios, MANY_PREEMPTIONS);
}

/// Explores one protocol, and returns which of the table's operations it has.
fn explore_all(scenarios: &[Scenario], preemptions: usize) -> BTreeSet<String> {
    let orders = Arc::new(Orders::of_the_sources());
    for scenario in scenarios {
        explore(*scenario, &orders, preemptions);
    }
    orders.used()
}

fn quiet_about_seeded_bugs() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |what| {
        if std::thread::current().name() != Some(EXPECTED) {
            report(what);
        }
    }));
}

#[test]
fn the_inbox_holds() {
    holds(inbox::SCENARIOS);
}

#[test]
fn the_lock_holds() {
    holds(lock::SCENARIOS);
}

#[test]
fn the_room_sleeps_over_nothing() {
    holds(room::SCENARIOS);
}

#[test]
fn a_slab_taken_over_leads_to_a_heap() {
    holds(take_over::SCENARIOS);
}

#[test]
fn every_weaker_order_is_caught() {
    quiet_about_seeded_bugs();
    let used: Vec<_> = PROTOCOLS
        .iter()
        .map(|scenarios| (explore_all(scenarios, FEW_PREEMPTIONS), scenarios))
        .collect();
    let mut modelled = BTreeSet::new();
    for (names, _) in &used {
        modelled.extend(names.iter().cloned());
    }
    let table = Table::read();
    assert_eq!(
        table.names(),
        modelled,
        "an operation of the table is in no model"
    );
    let missed: Vec<_> = table
        .weakenings()
        .into_iter()
        .filter(|(name, weaker)| {
            let orders = Arc::new(Orders::with(name, weaker));
            let concerned = used.iter().filter(|(names, _)| names.contains(name));
            !concerned
                .into_iter()
                .any(|(_, scenarios)| finds_a_bug(scenarios, &orders))
        })
        .collect();
    assert!(missed.is_empty(), "not caught: {:?}", missed);
}

fn source(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../src")
        .join(file);
    let text = std::fs::read_to_string(&path);
    sources::without_comments(&text.unwrap_or_else(|why| panic!("{}: {}", path.display(), why)))
}

/// Whoever changes an order, or adds an operation, changes the table and, where it has it, the model.
#[test]
fn the_table_is_the_sources() {
    let table = Table::read();
    for (file, all) in &table.files {
        let text = source(file);
        let mut listed = 0;
        for function in table
            .functions
            .iter()
            .filter(|function| function.file == *file)
        {
            let found = sources::operations(sources::body(&text, &function.name));
            let mut left = found.iter();
            for expected in &function.operations {
                let is_it = |found: &&sources::Found| {
                    found.kind == expected.kind && found.orders == expected.orders
                };
                // Of a file of which only some are listed, others may stand between them.
                let matched = if *all {
                    left.next().filter(is_it)
                } else {
                    left.find(is_it)
                };
                assert!(
                    matched.is_some(),
                    "{}, {}: {} is not as in orders.txt; the source has {:?}",
                    file,
                    function.name,
                    expected.name,
                    found
                );
            }
            listed += function.operations.len();
        }
        let there = sources::operations(&text);
        assert!(
            !all || listed == there.len(),
            "{}: {} listed of {:?}",
            file,
            listed,
            there
        );
    }
}

#[test]
fn a_changed_order_in_a_source_is_seen() {
    let text = source("remote/inbox.h");
    let push = sources::operations(sources::body(&text, "push"));
    assert_eq!(push.len(), 3);
    let changed = text.replace("memory_order_acq_rel", "memory_order_acquire");
    assert_ne!(sources::operations(sources::body(&changed, "push")), push);
}
