//! The least that runs many tasks in one thread: each is polled when it was woken.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use crate::Result;

/// A task.
pub type Task = Pin<Box<dyn Future<Output = Result<()>>>>;

/// Tasks that were woken, and who polls them.
struct Woken {
    tasks: Mutex<VecDeque<usize>>,
    thread: Thread,
}

struct Mark {
    task: usize,
    is_woken: AtomicBool,
    woken: Arc<Woken>,
}

impl Wake for Mark {
    fn wake(self: Arc<Self>) {
        if !self.is_woken.swap(true, Ordering::AcqRel) {
            let mut tasks = self.woken.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            tasks.push_back(self.task);
            drop(tasks);
            self.woken.thread.unpark();
        }
    }
}

/// Runs them until the first of them ends, or any fails.
pub fn run(mut tasks: Vec<Task>) -> Result<()> {
    let woken = Arc::new(Woken {
        tasks: Mutex::new((0..tasks.len()).collect()),
        thread: std::thread::current(),
    });
    let marks: Vec<Arc<Mark>> = (0..tasks.len())
        .map(|task| {
            Arc::new(Mark { task, is_woken: AtomicBool::new(true), woken: Arc::clone(&woken) })
        })
        .collect();
    let mut is_over = vec![false; tasks.len()];
    loop {
        let next = woken.tasks.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let Some(at) = next else {
            std::thread::park();
            continue;
        };
        if is_over[at] {
            continue;
        }
        marks[at].is_woken.store(false, Ordering::Release);
        let waker = Waker::from(Arc::clone(&marks[at]));
        match tasks[at].as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(Ok(())) if at > 0 => is_over[at] = true,
            Poll::Ready(result) => return result,
            Poll::Pending => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use super::*;
    use crate::Error;

    /// Ready at its second poll; a thread wakes it for that.
    fn later(after: Duration) -> impl Future<Output = Result<()>> {
        let mut is_asked = false;
        poll_fn(move |context| {
            if std::mem::replace(&mut is_asked, true) {
                return Poll::Ready(Ok(()));
            }
            let waker = context.waker().clone();
            std::thread::spawn(move || {
                std::thread::sleep(after);
                waker.wake();
            });
            Poll::Pending
        })
    }

    #[test]
    fn the_first_task_ends_it_and_a_failure_does() {
        let never = || Box::pin(std::future::pending()) as Task;
        let first = Box::pin(later(Duration::from_millis(20)));
        run(vec![first, never(), Box::pin(later(Duration::ZERO))]).unwrap();
        let failing = Box::pin(async {
            later(Duration::from_millis(5)).await?;
            Err(Error::Interrupted)
        });
        assert!(run(vec![never(), failing]).is_err());
    }
}
