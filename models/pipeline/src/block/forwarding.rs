//! What it takes to forward a store's data to a load.

use crate::block::uops::Case;
use crate::core::params::memory;

impl memory {
    /// Cycles from a store's data to the result of a load that reads them.
    pub(crate) fn forwarded(&self, case: &Case, load: usize, vector: bool, update: bool) -> u32 {
        let part = !case.exact[load] && self.forward_part_cycles > 0;
        if case.failed[load] {
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
