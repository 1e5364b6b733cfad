//! The latency of forwarding a store's data to a load.

use crate::block::uops::Case;
use crate::core::params::memory;

impl memory {
    /// Whether a load waits for the cache that reads more than the store before it wrote.
    pub(crate) fn waits(&self, lower: bool, others: bool) -> bool {
        self.failed_forward_waits && !(self.merges_lower && lower && !others)
    }

    /// Cycles from a store's data, or its write into the cache, to the result of a load that reads them.
    pub(crate) fn forwarded(&self, case: &Case, load: usize, vector: bool, update: bool) -> u32 {
        let part = !case.exact[load] && self.forward_part_cycles > 0;
        if case.waits[load] && self.failed_forward_wait_cycles > 0 {
            self.failed_forward_wait_cycles
        } else if case.failed[load] {
            self.failed_forward_cycles
        } else if vector && self.forward_vector_cycles > 0 {
            self.forward_vector_cycles
        } else if update && self.forward_update_cycles > 0 {
            self.forward_update_cycles
        } else if part {
            self.forward_part_cycles
        } else {
            self.forward_cycles
        }
    }
}
