//! Law 4 as tests see it: the system's allocator, which counts what it is asked for, by each thread and by all. A test names it
//! as its own:
//!
//! ```
//! use fusewire_testkit::counting::{self, Counting};
//!
//! #[global_allocator]
//! static COUNTING: Counting = Counting;
//!
//! let before = counting::of_thread();
//! drop(std::hint::black_box(vec![1u8; 100]));
//! assert_eq!(counting::of_thread(), before + 1);
//! assert!(counting::of_all() > 0);
//! assert_eq!(counting::during(|| assert_eq!(1 + 1, 2)), 0);
//! let (bytes, _memory) = counting::kept(|| std::hint::black_box(vec![1u8; 100]));
//! assert_eq!(bytes, 100);
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    static OF_THREAD: Cell<u64> = const { Cell::new(0) };
    static KEPT: Cell<i64> = const { Cell::new(0) };
}

static OF_ALL: AtomicU64 = AtomicU64::new(0);

/// How often this thread has asked for memory.
pub fn of_thread() -> u64 {
    OF_THREAD.get()
}

/// How often any thread has.
pub fn of_all() -> u64 {
    OF_ALL.load(Ordering::Relaxed)
}

/// How often this thread asks for memory while it runs this.
pub fn during(run: impl FnOnce()) -> u64 {
    let before = of_thread();
    run();
    of_thread() - before
}

/// Bytes that this thread asks for while it runs this, less those that it gives back; and what came of it.
pub fn kept<T>(run: impl FnOnce() -> T) -> (i64, T) {
    let before = KEPT.get();
    let came = run();
    (KEPT.get() - before, came)
}

/// The system's allocator.
#[derive(Clone, Copy, Debug)]
pub struct Counting;

/// Memory grows by so many bytes.
fn keep(bytes: i64) {
    let _ = KEPT.try_with(|all| all.set(all.get() + bytes));
}

fn count(bytes: i64) {
    // A thread that ends has nothing to count any more.
    let _ = OF_THREAD.try_with(|all| all.set(all.get() + 1));
    keep(bytes);
    OF_ALL.fetch_add(1, Ordering::Relaxed);
}

// SAFETY: every call goes on to the system's allocator as it came, and counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promises are those that are asked for here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        keep(-(layout.size() as i64));
        // SAFETY: as above; the memory is from `System`.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        // SAFETY: as above; the memory is from `System`.
        unsafe { System.realloc(memory, layout, size) }
    }
}
