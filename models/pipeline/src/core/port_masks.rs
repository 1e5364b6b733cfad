//! Lists of ports as masks.

use crate::core::params::Params;

impl Params {
    /// Bit mask of the named ports; `None` if one of them does not exist.
    pub fn mask(&self, list: &str) -> Option<u32> {
        list.chars().try_fold(0, |mask, c| {
            Some(mask | 1 << self.ports.names.chars().position(|p| p == c)?)
        })
    }

    /// Bit masks of the named ports, one each, in their order; `None` if one of them does not exist.
    pub fn masks(&self, list: &str) -> Option<Vec<u32>> {
        list.chars().map(|port| self.mask(&port.to_string())).collect()
    }

    /// Bit mask of the ports that load or store.
    pub fn memory_ports(&self) -> u32 {
        let p = &self.ports;
        let masks = [&p.load, &p.store_address, &p.store_data].map(|list| self.mask(list).unwrap_or(0));
        masks.iter().fold(0, |all, mask| all | mask)
    }
}
