//! Heaps of the program's own, beside the system's allocator.

use std::alloc::Layout;
use std::mem::MaybeUninit;
use std::thread;

use loft::{Heap, HeapError};

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

#[test]
fn a_heap_that_is_dropped_takes_its_objects_along() {
    let before = loft::stats().user_heap_bytes;
    {
        let heap = Heap::new().unwrap();
        for n in 1..2000 {
            let object = heap.alloc(layout(n, 8)).unwrap();
            // SAFETY: the object has so many bytes.
            unsafe { object.as_ptr().write_bytes(1, n) };
        }
        assert_eq!(heap.stats().live_objects, 1999);
        assert!(heap.stats().live_bytes >= 1999 * 2000 / 2);
        assert!(format!("{heap:?}").contains("live_objects: 1999"));
        for _ in 0..200 {
            heap.alloc(layout(1 << 20, 8)).unwrap();
        }
        assert!(loft::stats().user_heaps > 0);
        assert!(loft::stats().user_heap_bytes >= 200 << 20);
    }
    // Other tests have heaps, too, but nowhere near so much in them.
    assert!(loft::stats().user_heap_bytes < before + (100 << 20));
}

#[test]
fn objects_are_aligned_grow_and_keep_what_is_in_them() {
    let heap = Heap::new().unwrap();
    for align in [1, 16, 64, 4096] {
        let mut size = 10;
        let mut object = heap.alloc_zeroed(layout(size, align)).unwrap();
        for next in [40, 30, 3000, 100_000, 6 << 20, 64] {
            // SAFETY: the object is the heap's, and has the size that was asked for last.
            unsafe {
                object.as_ptr().write_bytes(0x5A, size);
                object = heap.realloc(object, align, next).unwrap();
                let kept = std::slice::from_raw_parts(object.as_ptr(), size.min(next));
                assert!(kept.iter().all(|&byte| byte == 0x5A));
            }
            assert_eq!(object.addr().get() % align, 0);
            assert!(heap.contains(object.as_ptr()));
            size = next;
        }
        // SAFETY: it is not used any more.
        unsafe { heap.free(object) };
    }
    assert_eq!(heap.stats().live_objects, 0);
}

#[test]
fn zeroed_is_zero_after_reuse() {
    let heap = Heap::new().unwrap();
    for size in [8, 500, 5000, 200_000] {
        for align in [8, 512] {
            for _ in 0..4 {
                let object = heap.alloc_zeroed(layout(size, align)).unwrap();
                // SAFETY: the object has so many bytes, and is freed once.
                unsafe {
                    let bytes = std::slice::from_raw_parts(object.as_ptr(), size);
                    assert!(bytes.iter().all(|&byte| byte == 0));
                    object.as_ptr().write_bytes(9, size);
                    heap.free(object);
                }
            }
        }
    }
}

#[test]
fn no_bytes_and_too_many() {
    let heap = Heap::new().unwrap();
    let none = heap.alloc(layout(0, 1)).unwrap();
    assert!(heap.contains(none.as_ptr()));
    assert!(heap.good_size(0) > 0);
    assert!(heap.alloc(layout(isize::MAX as usize - 64, 1)).is_none());
    assert!(
        heap.alloc_zeroed(layout(isize::MAX as usize - 4096, 4096))
            .is_none()
    );
    // SAFETY: it was not freed.
    unsafe { heap.free(none) };
}

#[test]
fn a_region_has_room_for_so_much_and_is_free_again_afterwards() {
    let mut region = vec![MaybeUninit::<u8>::uninit(); 1 << 20];
    for _ in 0..2 {
        let heap = Heap::over(&mut region).unwrap();
        let mut count = 0;
        while heap.alloc(layout(1000, 8)).is_some() {
            count += 1;
        }
        assert!((900..=1048).contains(&count), "{count}");
    }
    region[0].write(1);
    assert_eq!(
        Heap::over(&mut region[..100]).unwrap_err(),
        HeapError::RegionTooSmall
    );
    assert_eq!(Heap::over(&mut []).unwrap_err(), HeapError::RegionTooSmall);
}

#[test]
fn threads_share_a_heap() {
    let heap = Heap::new().unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mine: Vec<_> = (1..500)
                    .map(|n| heap.alloc(layout(n, 8)).unwrap())
                    .collect();
                for object in mine {
                    // SAFETY: each once.
                    unsafe { heap.free(object) };
                }
            });
        }
    });
    assert_eq!(heap.stats().live_objects, 0);
    // And it may end in another one than it began.
    thread::spawn(move || drop(heap)).join().unwrap();
}
