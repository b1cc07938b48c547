//! allocator_api2's collections in the process's heap, and in heaps of the program's own.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::thread;

use allocator_api2::alloc::Allocator;
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use loft::{Heap, Loft};

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

/// What the trait promises, for one allocator.
fn keeps_its_promises(allocator: &impl Allocator) {
    for align in [1, 16, 64, 4096] {
        let mut now = layout(0, align);
        let mut block = allocator.allocate(now).unwrap();
        for size in [
            1,
            20,
            20,
            1000,
            40_000,
            300_000,
            6 << 20,
            2 << 20,
            70_000,
            100,
            0,
        ] {
            let next = layout(size, align);
            // SAFETY: the block is of the layout that was asked for last.
            unsafe {
                let from = block.cast::<u8>();
                from.write_bytes(0x77, now.size());
                block = if size < now.size() {
                    allocator.shrink(from, now, next).unwrap()
                } else if size % 3 == 0 {
                    let grown = allocator.grow(from, now, next).unwrap();
                    grown
                        .cast::<u8>()
                        .add(now.size())
                        .write_bytes(0, size - now.size());
                    grown
                } else {
                    allocator.grow_zeroed(from, now, next).unwrap()
                };
                assert!(block.len() >= size);
                assert_eq!(block.cast::<u8>().addr().get() % align, 0);
                let bytes = std::slice::from_raw_parts(block.cast::<u8>().as_ptr(), size);
                let kept = size.min(now.size());
                assert!(bytes[..kept].iter().all(|&byte| byte == 0x77));
                assert!(bytes[kept..].iter().all(|&byte| byte == 0));
            }
            now = next;
        }
        // SAFETY: as above.
        unsafe { allocator.deallocate(block.cast(), now) };
    }
    // All of a block may be used, and any size that fits frees it.
    for size in [1, 50, 1500, 33_000] {
        let block = allocator.allocate_zeroed(layout(size, 8)).unwrap();
        // SAFETY: the block is as long as it says.
        unsafe {
            let start = block.cast::<u8>();
            let bytes = std::slice::from_raw_parts(start.as_ptr(), block.len());
            assert!(bytes.iter().all(|&byte| byte == 0));
            start.write_bytes(1, block.len());
            allocator.deallocate(start, layout(block.len(), 8));
        }
    }
    assert!(
        allocator
            .allocate(layout(isize::MAX as usize - 8, 1))
            .is_err()
    );
    // A layout of a stricter alignment.
    let block = allocator.allocate(layout(100, 8)).unwrap().cast::<u8>();
    // SAFETY: the block is of this layout.
    unsafe {
        block.write_bytes(5, 100);
        let moved = allocator
            .grow(block, layout(100, 8), layout(200, 2048))
            .unwrap();
        let moved: NonNull<u8> = moved.cast();
        assert_eq!(moved.addr().get() % 2048, 0);
        assert_eq!(moved.add(99).read(), 5);
        allocator.deallocate(moved, layout(200, 2048));
    }
}

#[test]
fn the_heap_of_the_process_keeps_the_promises() {
    keeps_its_promises(&Loft);
}

#[test]
fn a_heap_keeps_the_promises() {
    let heap = Heap::new().unwrap();
    keeps_its_promises(&heap);
    assert_eq!(heap.stats().live_objects, 0);
}

#[test]
fn a_region_keeps_the_promises() {
    let mut region = std::vec![std::mem::MaybeUninit::uninit(); 32 << 20];
    let heap = Heap::over(&mut region).unwrap();
    keeps_its_promises(&heap);
    assert_eq!(heap.stats().live_objects, 0);
}

#[test]
fn collections_live_in_a_heap() {
    let heap = Heap::new().unwrap();
    let mut texts = Vec::new_in(&heap);
    for n in 0..1000u32 {
        let mut text = Vec::new_in(&heap);
        text.extend_from_slice(n.to_string().as_bytes());
        texts.push(text);
    }
    let one = Box::new_in([7u64; 100], &heap);
    assert!(heap.contains(one.as_ptr()) && heap.contains(texts[999].as_ptr()));
    assert_eq!(texts[999].as_slice(), b"999");
    assert_eq!(heap.stats().live_objects, 1002);
    drop(texts);
    drop(one);
    assert_eq!(heap.stats().live_objects, 0);
}

#[test]
fn a_collection_may_have_its_heap_itself() {
    let mut numbers = Vec::new_in(Heap::new().unwrap());
    numbers.extend(0..10_000);
    let moved = thread::spawn(move || {
        let numbers = numbers;
        numbers.iter().sum::<i32>()
    });
    assert_eq!(moved.join().unwrap(), 49_995_000);
}

#[test]
fn what_is_left_in_a_heap_goes_with_it() {
    let heap = Heap::new().unwrap();
    let kept: &mut [u8; 4000] = Box::leak(Box::new_in([1; 4000], &heap));
    kept[0] = 2;
    assert_eq!(heap.stats().live_objects, 1);
}
