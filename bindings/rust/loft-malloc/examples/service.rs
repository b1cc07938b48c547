//! A service under load: clients make requests, workers answer them, over channels. Each request is
//! allocated by a client and freed by a worker, and each answer the other way round.
//!
//!     cargo run --release --example service                    # under loft
//!     cargo run --release --example service -- --compare       # the system's allocator, then loft
//!     cargo run --release --example service -- --requests 2000 --clients 2 --workers 2
//!
//! The allocator is chosen when the program starts, by SERVICE_ALLOCATOR=system in the environment.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::{HashMap, VecDeque};
use std::ffi::{c_char, c_int};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Instant;

use loft::Loft;

const CHOICE: &str = "SERVICE_ALLOCATOR";

/// Either allocator, for comparison. A program needs `static GLOBAL: Loft = Loft` alone.
struct Chosen;

/// 0: not chosen yet; 1: loft; 2: the system's.
static CHOSEN: AtomicU8 = AtomicU8::new(0);

unsafe extern "C" {
    fn getenv(name: *const c_char) -> *const c_char;
    fn strcmp(one: *const c_char, other: *const c_char) -> c_int;
}

impl Chosen {
    /// The first call is before main, and there is one thread.
    #[cold]
    fn choose() -> u8 {
        // SAFETY: texts of C's; nobody changes the environment yet.
        let system = unsafe {
            let value = getenv(c"SERVICE_ALLOCATOR".as_ptr());
            !value.is_null() && strcmp(value, c"system".as_ptr()) == 0
        };
        let chosen = if system { 2 } else { 1 };
        CHOSEN.store(chosen, Ordering::Relaxed);
        chosen
    }

    fn is_loft() -> bool {
        match CHOSEN.load(Ordering::Relaxed) {
            0 => Self::choose() == 1,
            chosen => chosen == 1,
        }
    }
}

// SAFETY: one of the two allocators gets all calls.
unsafe impl GlobalAlloc for Chosen {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise, here and below.
        unsafe {
            if Self::is_loft() {
                Loft.alloc(layout)
            } else {
                System.alloc(layout)
            }
        }
    }
    unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe {
            if Self::is_loft() {
                Loft.dealloc(object, layout)
            } else {
                System.dealloc(object, layout)
            }
        }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe {
            if Self::is_loft() {
                Loft.alloc_zeroed(layout)
            } else {
                System.alloc_zeroed(layout)
            }
        }
    }
    unsafe fn realloc(&self, object: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        unsafe {
            if Self::is_loft() {
                Loft.realloc(object, layout, size)
            } else {
                System.realloc(object, layout, size)
            }
        }
    }
}

#[global_allocator]
static GLOBAL: Chosen = Chosen;

/// Numbers that look random, and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

struct Request {
    key: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    answer_to: Sender<Answer>,
}

struct Answer {
    status: u16,
    lines: Vec<String>,
    sum: u64,
}

/// A request as a client would have read it from its connection.
fn request(numbers: &mut Numbers, answer_to: &Sender<Answer>) -> Request {
    let headers = (0..2 + numbers.next(6))
        .map(|n| {
            (
                format!("x-header-{n}"),
                "v".repeat(numbers.next(60) as usize),
            )
        })
        .collect();
    // Most bodies are short, some are not.
    let longest = if numbers.next(32) == 0 { 20_000 } else { 1_000 };
    Request {
        key: format!("/items/{}", numbers.next(20_000)),
        headers,
        body: vec![7; numbers.next(longest) as usize],
        answer_to: answer_to.clone(),
    }
}

/// Answers what comes, and remembers the last few thousand things that were asked for.
fn work(requests: &Receiver<Request>) {
    let mut known: HashMap<String, Vec<u8>> = HashMap::new();
    let mut order: VecDeque<String> = VecDeque::new();
    for request in requests {
        let sum = request.body.iter().map(|&byte| u64::from(byte)).sum();
        let status = if known.contains_key(&request.key) {
            304
        } else {
            200
        };
        let lines = request
            .headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_uppercase()))
            .collect();
        if status == 200 {
            order.push_back(request.key.clone());
            known.insert(request.key, request.body);
        }
        for oldest in order.drain(..order.len().saturating_sub(4_000)) {
            known.remove(&oldest);
        }
        // A client that has ended needs no answer.
        let _ = request.answer_to.send(Answer { status, lines, sum });
    }
}

/// Sends requests, a few dozen ahead of the answers. Returns a sum over these.
fn ask(number: u64, count: u64, workers: &[SyncSender<Request>]) -> u64 {
    let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15 ^ (number + 1));
    let (answer_to, answers) = channel();
    let (mut total, mut ahead) = (0, 0);
    let mut take = |answer: Answer| {
        // Which requests a worker has seen before depends on the order of the threads; the rest does not.
        assert!(matches!(answer.status, 200 | 304));
        total += answer.sum + answer.lines.len() as u64;
    };
    for n in 0..count {
        let worker = &workers[(n % workers.len() as u64) as usize];
        worker
            .send(request(&mut numbers, &answer_to))
            .expect("a worker");
        ahead += 1;
        if ahead == 64 {
            take(answers.recv().expect("an answer"));
            ahead -= 1;
        }
    }
    for _ in 0..ahead {
        take(answers.recv().expect("an answer"));
    }
    total
}

fn serve(requests: u64, clients: u64, workers: u64) {
    let started = Instant::now();
    let mut queues = Vec::new();
    let mut threads = Vec::new();
    for _ in 0..workers {
        let (sender, receiver) = sync_channel(256);
        queues.push(sender);
        threads.push(thread::spawn(move || work(&receiver)));
    }
    let asking: Vec<_> = (0..clients)
        .map(|number| {
            let queues = queues.clone();
            thread::spawn(move || ask(number, requests / clients, &queues))
        })
        .collect();
    drop(queues);
    let sum: u64 = asking
        .into_iter()
        .map(|one| one.join().expect("a client"))
        .sum();
    for thread in threads {
        thread.join().expect("a worker");
    }
    let seconds = started.elapsed().as_secs_f64();

    let served = requests / clients * clients;
    let name = if Chosen::is_loft() { "loft" } else { "system" };
    println!(
        "{name}: {served} requests in {seconds:.2} s, {:.0}/s, sum {sum}",
        served as f64 / seconds
    );
    if let Some(peak) = peak_kib() {
        println!("{name}: peak memory {} MiB", peak / 1024);
    }
    if Chosen::is_loft() {
        let stats = loft::stats();
        println!(
            "loft {}: {} objects went to other threads in {} messages; {} MiB live, {} MiB resident",
            loft::version(),
            stats.batch_objects,
            stats.batch_messages,
            stats.live_bytes >> 20,
            stats.resident_bytes >> 20,
        );
    }
}

fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn main() -> ExitCode {
    let (mut requests, mut clients, mut workers) = (400_000, 2, 2);
    let mut compare = false;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let place = match argument.as_str() {
            "--compare" => {
                compare = true;
                continue;
            }
            "--requests" => &mut requests,
            "--clients" => &mut clients,
            "--workers" => &mut workers,
            _ => {
                eprintln!("usage: service [--compare] [--requests N] [--clients N] [--workers N]");
                return ExitCode::from(2);
            }
        };
        match arguments
            .next()
            .and_then(|text| text.parse().ok())
            .filter(|&number| number > 0)
        {
            Some(number) => *place = number,
            None => {
                eprintln!("service: {argument} needs a number above 0");
                return ExitCode::from(2);
            }
        }
    }
    if !compare {
        serve(requests, clients, workers);
        return ExitCode::SUCCESS;
    }
    for allocator in ["system", "loft"] {
        let itself = std::env::current_exe().expect("the path of this program");
        let counts = [
            ("--requests", requests),
            ("--clients", clients),
            ("--workers", workers),
        ];
        let mut command = Command::new(itself);
        command.env(CHOICE, allocator);
        for (name, number) in counts {
            command.arg(name).arg(number.to_string());
        }
        match command.status() {
            Ok(status) if status.success() => {}
            Ok(status) => {
                eprintln!("service: under {allocator}: {status}");
                return ExitCode::FAILURE;
            }
            Err(error) => {
                eprintln!("service: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
