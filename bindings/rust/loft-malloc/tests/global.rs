//! Loft as the global allocator, by its functions and under what the standard library does with it.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::mpsc::channel;
use std::thread;

use loft::Loft;

#[global_allocator]
static GLOBAL: Loft = Loft;

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

/// Small, of a medium run, large; and at the edges between them.
const SIZES: [usize; 10] = [
    1,
    16,
    100,
    1024,
    1025,
    32 << 10,
    (32 << 10) + 1,
    1 << 20,
    4 << 20,
    (9 << 20) + 5,
];

#[test]
fn objects_are_aligned_as_their_layout_says() {
    for shift in 0..22 {
        for size in SIZES {
            let layout = layout(size, 1 << shift);
            // SAFETY: the object is used within its size, and freed with its layout.
            unsafe {
                let object = Loft.alloc(layout);
                assert!(!object.is_null());
                assert_eq!(object.addr() % layout.align(), 0, "{layout:?}");
                object.write(1);
                object.add(size - 1).write(2);
                Loft.dealloc(object, layout);
            }
        }
    }
}

#[test]
fn growing_and_shrinking_keep_content_and_alignment() {
    for align in [1, 8, 16, 64, 4096, 65536] {
        let mut size = 24;
        // SAFETY: the object has always the size that was asked for last.
        unsafe {
            let mut object = Loft.alloc(layout(size, align));
            object.write_bytes(0xA5, size);
            for next in [
                100,
                90,
                5000,
                40_000,
                300_000,
                5 << 20,
                11 << 20,
                70_000,
                500,
                3,
            ] {
                object = Loft.realloc(object, layout(size, align), next);
                assert!(!object.is_null());
                assert_eq!(object.addr() % align, 0);
                let kept = std::slice::from_raw_parts(object, size.min(next));
                assert!(
                    kept.iter().all(|&byte| byte == 0xA5),
                    "{align} {size} {next}"
                );
                object.write_bytes(0xA5, next);
                size = next;
            }
            Loft.dealloc(object, layout(size, align));
        }
    }
}

#[test]
fn zeroed_memory_is_zero_also_after_use() {
    for align in [8, 128, 8192] {
        for size in SIZES {
            let layout = layout(size, align);
            for _ in 0..3 {
                // SAFETY: as above.
                unsafe {
                    let object = Loft.alloc_zeroed(layout);
                    assert_eq!(object.addr() % align, 0);
                    let bytes = std::slice::from_raw_parts(object, size);
                    assert!(bytes.iter().all(|&byte| byte == 0), "{layout:?}");
                    object.write_bytes(0xFF, size);
                    Loft.dealloc(object, layout);
                }
            }
        }
    }
}

#[test]
fn a_good_size_costs_no_more() {
    for align in [1, 32, 4096] {
        for size in SIZES {
            let good = Loft.good_size(layout(size, align));
            assert!(good >= size);
            assert_eq!(Loft.good_size(layout(good, align)), good);
            // SAFETY: as above.
            unsafe {
                let object = std::ptr::NonNull::new(Loft.alloc(layout(size, align))).unwrap();
                assert!(Loft.usable_size(object) >= size);
                Loft.dealloc(object.as_ptr(), layout(size, align));
            }
        }
    }
}

#[test]
fn an_object_is_expanded_where_it_is_or_stays() {
    let (small, more) = (layout(100, 8), 1 << 30);
    // SAFETY: as above.
    unsafe {
        let object = std::ptr::NonNull::new(Loft.alloc(small)).unwrap();
        assert!(!Loft.expand(object, more));
        let usable = Loft.usable_size(object);
        assert!(Loft.expand(object, usable));
        object.as_ptr().add(usable - 1).write(1);
        Loft.dealloc(object.as_ptr(), layout(usable, 8));
    }
}

#[test]
fn what_cannot_be_had_is_null() {
    let most = layout(isize::MAX as usize - 4096, 1);
    let aligned = layout(isize::MAX as usize - (1 << 20), 1 << 16);
    // SAFETY: no object comes of it, and the one that is resized stays.
    unsafe {
        assert!(Loft.alloc(most).is_null());
        assert!(Loft.alloc_zeroed(most).is_null());
        assert!(Loft.alloc(aligned).is_null());
        assert!(Loft.alloc_zeroed(aligned).is_null());
        let small = layout(100, 8);
        let object = Loft.alloc(small);
        object.write_bytes(3, 100);
        assert!(Loft.realloc(object, small, most.size()).is_null());
        assert_eq!(object.add(99).read(), 3);
        Loft.dealloc(object, small);
    }
    let mut bytes = Vec::<u8>::new();
    assert!(bytes.try_reserve_exact(most.size()).is_err());
}

#[test]
fn values_of_no_bytes_are_not_allocated() {
    let mut units = Vec::new();
    units.extend((0..1000).map(|_| ()));
    assert_eq!(units.len(), 1000);
    // Who breaks the rule and asks for none gets an object all the same.
    let none = layout(0, 1);
    // SAFETY: it is freed with its layout, and not used.
    unsafe {
        let object = Loft.alloc(none);
        assert!(!object.is_null());
        Loft.dealloc(object, none);
    }
}

#[test]
fn threads_free_what_others_allocated() {
    let (sender, receiver) = channel::<Vec<String>>();
    let makers: Vec<_> = (0..4)
        .map(|maker| {
            let sender = sender.clone();
            thread::spawn(move || {
                for n in 0..300 {
                    let texts = (0..50).map(|m| format!("{maker} {n} {m} {}", "x".repeat(m)));
                    sender.send(texts.collect()).unwrap();
                }
            })
        })
        .collect();
    drop(sender);
    let reader = thread::spawn(move || {
        receiver
            .iter()
            .flatten()
            .map(|text| text.len())
            .sum::<usize>()
    });
    for maker in makers {
        maker.join().unwrap();
    }
    let digits = |n: usize| n.to_string().len();
    let expected: usize = (0..4)
        .flat_map(|maker| (0..300).map(move |n| digits(maker) + digits(n)))
        .map(|both| (0..50).map(|m| both + 3 + digits(m) + m).sum::<usize>())
        .sum();
    assert_eq!(reader.join().unwrap(), expected);
}

#[test]
fn an_over_aligned_type_in_a_vector_stays_aligned_as_it_grows() {
    #[repr(align(256))]
    struct Line(u8);
    let mut lines = Vec::new();
    for n in 0..2000u32 {
        lines.push(Line(n as u8));
        assert!(lines.as_ptr().is_aligned());
    }
    assert!(lines.iter().enumerate().all(|(n, line)| line.0 == n as u8));
}

#[test]
fn a_panic_unwinds_through_a_thread_that_allocates() {
    let ended = thread::spawn(|| {
        let _kept = vec![1u8; 1000];
        std::panic::panic_any(7);
    })
    .join();
    assert_eq!(ended.unwrap_err().downcast_ref(), Some(&7));
}

#[test]
fn a_thread_knows_what_it_has_allocated_and_not_freed() {
    let Some(before) = loft::thread_net_bytes() else {
        return;
    };
    let kept = vec![1u8; 100_000];
    let more = loft::thread_net_bytes().expect("as before") - before;
    assert!(more >= 100_000, "{more}");
    let freed = std::thread::spawn(move || {
        let begun = loft::thread_net_bytes().expect("as before");
        drop(kept);
        begun - loft::thread_net_bytes().expect("as before")
    });
    assert_eq!(freed.join().expect("ended"), more);
}
