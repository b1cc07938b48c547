//! The atomic operations that stand in the C++ sources, as far as a table needs them: it knows
//! brackets and comments, and no more of the language.

#[derive(Debug, PartialEq)]
pub struct Found {
    pub kind: String,
    pub orders: Vec<String>,
}

const KINDS: [&str; 10] = [
    "load",
    "store",
    "exchange",
    "compare_exchange_strong",
    "compare_exchange_weak",
    "fetch_add",
    "fetch_or",
    "atomic_thread_fence",
    "__atomic_load_n",
    "__atomic_store_n",
];
const PREFIXES: [&str; 3] = ["memory_order_", "std::memory_order_", "__ATOMIC_"];

pub fn without_comments(text: &str) -> String {
    let code = |line: &str| line.split("//").next().unwrap().to_string();
    text.lines().map(code).collect::<Vec<_>>().join("\n")
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Where the bracket closes that opens at `open`.
fn closing(text: &str, open: usize) -> usize {
    let mut depth = 0;
    for (at, c) in text[open..].char_indices() {
        match c {
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return open + at;
        }
    }
    panic!("a bracket stays open");
}

/// Where `name` stands as a word of its own, before an opening bracket.
fn calls<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(name)
        .map(|(at, _)| at)
        .filter(move |at| {
            !text[..*at].ends_with(is_word) && text[at + name.len()..].starts_with('(')
        })
}

/// The body of the function of that name.
pub fn body<'a>(text: &'a str, name: &str) -> &'a str {
    for at in calls(text, name) {
        let after = closing(text, at + name.len()) + 1;
        let rest = text[after..].trim_start();
        let rest = rest.strip_prefix("const").unwrap_or(rest).trim_start();
        if rest.starts_with('{') {
            let open = text.len() - rest.len();
            // A definition follows a type, or its class's name.
            if text[..at]
                .trim_end()
                .ends_with(|c| is_word(c) || "*&:".contains(c))
            {
                return &text[open..=closing(text, open)];
            }
        }
    }
    panic!("no function {}", name);
}

/// The operations that name an order, as they stand in the text.
pub fn operations(text: &str) -> Vec<Found> {
    let mut found = Vec::new();
    for kind in KINDS {
        for at in calls(text, kind) {
            let open = at + kind.len();
            let orders = own_orders(&text[open + 1..closing(text, open)]);
            if !orders.is_empty() {
                let kind = kind.trim_start_matches("__atomic_").trim_end_matches("_n");
                found.push((
                    at,
                    Found {
                        kind: kind.to_string(),
                        orders,
                    },
                ));
            }
        }
    }
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, operation)| operation).collect()
}

/// The orders among the arguments; not those of a call among them.
fn own_orders(arguments: &str) -> Vec<String> {
    let mut depth = 0;
    let separate = |c: char| {
        match c {
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    };
    let order = |argument: &str| {
        let name = PREFIXES
            .iter()
            .find_map(|prefix| argument.trim().strip_prefix(prefix));
        name.map(str::to_lowercase)
    };
    arguments.split(separate).filter_map(order).collect()
}
