//! The same for each of many, on all processors.

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::{Arc, Mutex};

/// The results of all items, in order. `threads` 0 means one per processor.
pub fn each<T: Sync, R: Send>(items: &[T], threads: usize, run: impl Fn(&T) -> R + Sync + Send) -> Vec<R> {
    if threads == 1 || items.len() < 2 {
        return items.iter().map(run).collect();
    }
    match pool(threads) {
        Some(pool) => pool.install(|| items.par_iter().map(run).collect()),
        None => items.iter().map(run).collect(),
    }
}

/// The pool of one thread per processor, and the process that it was made in.
static EVERY: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);

/// A pool of so many threads; none where there are no threads.
fn pool(threads: usize) -> Option<Arc<ThreadPool>> {
    if cfg!(target_family = "wasm") {
        return None;
    }
    let new = || ThreadPoolBuilder::new().num_threads(threads).build().ok().map(Arc::new);
    if threads != 0 {
        return new();
    }
    // Starting threads takes as long as several short predictions. A fork has none of them.
    let process = std::process::id();
    let mut kept = EVERY.lock().ok()?;
    if kept.as_ref().is_none_or(|(of, _)| *of != process) {
        std::mem::forget(kept.take());
        *kept = new().map(|pool| (process, pool));
    }
    kept.as_ref().map(|(_, pool)| Arc::clone(pool))
}
