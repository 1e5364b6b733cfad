//! Pipeline parameters of a core: their names, meanings, units and defaults; a file for tables of a kind.

mod accesses;
mod back;
mod branches;
mod caches;
mod front;
mod special;

pub use accesses::memory;
pub use back::{ports, rename, retire, scheduler};
pub use branches::{macro_fusion, mispredict, taken_branch};
pub use caches::{loop_buffer, uop_cache};
pub use front::{decode, fetch, front_end, predecode};
pub use special::{serial, string};

use crate::core::declare::params;

params! {
    front_end, predecode, fetch, decode,
    uop_cache, loop_buffer,
    rename, scheduler, ports, retire,
    memory,
    macro_fusion, taken_branch, mispredict,
    string, serial,
}
