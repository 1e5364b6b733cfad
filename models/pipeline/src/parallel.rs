//! The same for each of many, on all processors.

use rayon::prelude::*;

/// What comes of each, in order. `threads` 0 means one per processor.
pub fn each<T: Sync, R: Send>(items: &[T], threads: usize, run: impl Fn(&T) -> R + Sync + Send) -> Vec<R> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    match pool {
        Ok(pool) if threads != 1 && items.len() > 1 => pool.install(|| items.par_iter().map(run).collect()),
        _ => items.iter().map(run).collect(),
    }
}
