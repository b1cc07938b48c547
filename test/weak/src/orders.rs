//! The table of atomic operations, `orders.txt`, and the orders that a model takes from it.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::Ordering;
use std::sync::Mutex;

pub struct Operation {
    pub name: String,
    pub kind: String,
    pub orders: Vec<String>,
    pub weaker: Vec<String>,
}

pub struct Function {
    pub file: String,
    pub name: String,
    pub modelled: bool,
    pub operations: Vec<Operation>,
}

pub struct Table {
    /// Name, and whether all of its operations are here.
    pub files: Vec<(String, bool)>,
    pub functions: Vec<Function>,
}

impl Table {
    pub fn read() -> Table {
        let mut table = Table {
            files: Vec::new(),
            functions: Vec::new(),
        };
        for line in include_str!("../orders.txt").lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                [] | ["#", ..] => {}
                ["file", name, extent] => {
                    assert!(["all", "some"].contains(extent), "{}", line);
                    table.files.push((name.to_string(), *extent == "all"));
                }
                [kind, name] if ["function", "unmodelled"].contains(kind) => {
                    table.functions.push(Function {
                        file: table.files.last().expect("a file first").0.clone(),
                        name: name.to_string(),
                        modelled: *kind == "function",
                        operations: Vec::new(),
                    });
                }
                [name, kind, orders, weaker @ ..] => {
                    let weaker = weaker.iter().filter(|word| **word != "|");
                    let function = table.functions.last_mut().expect("a function first");
                    function.operations.push(Operation {
                        name: name.to_string(),
                        kind: kind.to_string(),
                        orders: orders.split('/').map(String::from).collect(),
                        weaker: weaker.map(|word| word.to_string()).collect(),
                    });
                }
                _ => panic!("not a line of the table: {}", line),
            }
        }
        table
    }

    /// The operations of one file's functions, as "function operation".
    fn modelled(&self) -> impl Iterator<Item = (String, &Operation)> {
        let functions = self.functions.iter().filter(|function| function.modelled);
        functions.flat_map(|function| {
            let key = move |operation: &Operation| format!("{} {}", function.name, operation.name);
            function
                .operations
                .iter()
                .map(move |operation| (key(operation), operation))
        })
    }

    pub fn names(&self) -> BTreeSet<String> {
        self.modelled().map(|(name, _)| name).collect()
    }

    /// Every seeded bug: an operation, and its weaker order.
    pub fn weakenings(&self) -> Vec<(String, String)> {
        let of_one = |(name, operation): (String, &Operation)| {
            let with_name = |weaker: &String| (name.clone(), weaker.clone());
            operation.weaker.iter().map(with_name).collect::<Vec<_>>()
        };
        self.modelled().flat_map(of_one).collect()
    }
}

/// What a model's operations take their orders from, and which of them did.
pub struct Orders {
    of: HashMap<String, Ordering>,
    used: Mutex<BTreeSet<String>>,
}

impl Orders {
    pub fn of_the_sources() -> Orders {
        let table = Table::read();
        let mut of = HashMap::new();
        for (name, operation) in table.modelled() {
            let before = of.insert(name, order(&operation.orders[0]));
            assert!(before.is_none(), "two operations of one name");
            // What all models assume of an exchange that fails.
            assert!(operation
                .orders
                .iter()
                .skip(1)
                .all(|order| order == "relaxed"));
        }
        Orders {
            of,
            used: Mutex::new(BTreeSet::new()),
        }
    }

    pub fn with(name: &str, weaker: &str) -> Orders {
        let mut orders = Orders::of_the_sources();
        let before = orders.of.insert(name.to_string(), order(weaker));
        assert_ne!(before, Some(order(weaker)), "no weaker order for {}", name);
        orders
    }

    pub fn at(&self, name: &str) -> Ordering {
        self.used.lock().unwrap().insert(name.to_string());
        *self
            .of
            .get(name)
            .unwrap_or_else(|| panic!("no operation {} in the table", name))
    }

    pub fn used(&self) -> BTreeSet<String> {
        self.used.lock().unwrap().clone()
    }
}

fn order(word: &str) -> Ordering {
    match word {
        "relaxed" => Ordering::Relaxed,
        "acquire" => Ordering::Acquire,
        "release" => Ordering::Release,
        "acq_rel" => Ordering::AcqRel,
        "seq_cst" => Ordering::SeqCst,
        _ => panic!("no order {}", word),
    }
}
