//! Conditions on parameters beyond their ranges, so that no value can break the simulation.

use crate::core::choice::Choice;
use crate::core::params::Params;
use crate::core::value::PORTS;
use crate::error::Error;
use crate::isa::x86::form::is_mnemonic;

impl Params {
    /// Check what several parameters, or the letters of one, must agree on.
    ///
    /// # Errors
    /// Names the parameter and what it must be.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.check_sizes()?;
        self.check_ports()?;
        self.pools()?;
        self.shared()?;
        self.borrowed()?;
        self.joint()?;
        self.check_pairs()?;
        self.check_points()
    }

    fn check_sizes(&self) -> Result<(), Error> {
        let wrong = |name: &str, value: u32, must: String| Err(Error::Parameter(format!("{name} = {value}: {must}")));
        for (name, bytes) in [
            ("predecode.block_bytes", self.predecode.block_bytes),
            ("fetch.block_bytes", self.fetch.block_bytes),
            ("uop_cache.region_bytes", self.uop_cache.region_bytes),
            ("taken_branch.dense_bytes", self.taken_branch.dense_bytes),
            ("memory.split_load_bytes", self.memory.split_load_bytes),
            ("memory.split_store_bytes", self.memory.split_store_bytes),
            ("memory.line_bytes", self.memory.line_bytes),
            ("memory.bank_bytes", self.memory.bank_bytes),
            ("string.alignment", self.string.alignment),
        ] {
            if !bytes.is_power_of_two() {
                return wrong(name, bytes, "must be a power of two".into());
            }
        }
        for (name, bytes) in [
            ("macro_fusion.boundary_bytes", self.macro_fusion.boundary_bytes),
            ("memory.commit_bytes", self.memory.commit_bytes),
        ] {
            if bytes != 0 && !bytes.is_power_of_two() {
                return wrong(name, bytes, "must be 0 or a power of two".into());
            }
        }
        let m = &self.memory;
        for (name, cycles) in [
            ("memory.failed_forward_cycles", m.failed_forward_cycles),
            ("memory.forward_update_cycles", m.forward_update_cycles),
            ("memory.forward_part_cycles", m.forward_part_cycles),
            ("memory.forward_vector_cycles", m.forward_vector_cycles),
        ] {
            if cycles == 1 {
                return wrong(name, cycles, "must be 0 or at least 2".into());
            }
        }
        // A unit that hands on a whole group waits until the next one has room for it.
        let group = self.decode.width.max(self.uop_cache.width);
        for (name, value, least, of) in [
            (
                "retire.reorder_buffer",
                self.retire.reorder_buffer,
                self.rename.width,
                "rename.width",
            ),
            (
                "scheduler.entries",
                self.scheduler.entries,
                self.rename.width,
                "rename.width",
            ),
            (
                "scheduler.pool_entries",
                self.scheduler.pool_entries,
                self.rename.width,
                "rename.width",
            ),
            (
                "predecode.queue",
                self.predecode.queue,
                self.predecode.width,
                "predecode.width",
            ),
            (
                "rename.queue",
                self.rename.queue,
                group,
                "decode.width and uop_cache.width",
            ),
        ] {
            if value < least {
                return wrong(name, value, format!("must be at least {least}, as {of}"));
            }
        }
        Ok(())
    }

    /// Pairs of instructions are two names each.
    fn check_pairs(&self) -> Result<(), Error> {
        let pairs = &self.macro_fusion.dependent;
        let name =
            |n: &str| n.starts_with(|c: char| c.is_ascii_lowercase()) && n.chars().all(|c| c.is_ascii_alphanumeric());
        let pair = |word: &str| word.split_once('+').is_some_and(|(a, b)| name(a) && name(b));
        match pairs.split_whitespace().find(|word| !pair(word)) {
            Some(word) => Err(Error::Parameter(format!(
                "macro_fusion.dependent = {pairs}: {word} must be FIRST+SECOND, two mnemonics"
            ))),
            None => Ok(()),
        }?;
        let fusion = &self.macro_fusion;
        for (key, list) in [("move_ops", &fusion.move_ops), ("load_ops", &fusion.load_ops)] {
            if let Some(word) = list.split_whitespace().find(|word| !is_mnemonic(word)) {
                return Err(Error::Parameter(format!(
                    "macro_fusion.{key} = {list}: {word} is no mnemonic"
                )));
            }
        }
        Ok(())
    }

    fn check_ports(&self) -> Result<(), Error> {
        let p = &self.ports;
        if p.names.is_empty() || p.names.chars().count() > PORTS {
            return Err(Error::Parameter(format!("ports.names: must name 1 to {PORTS} ports")));
        }
        if let Some(twice) = twice(&p.names) {
            return Err(Error::Parameter(format!(
                "ports.names = {}: {twice} stands twice",
                p.names
            )));
        }
        for (name, list, may_be_empty) in [
            ("ports.load", &p.load, false),
            ("ports.store_address", &p.store_address, false),
            ("ports.store_data", &p.store_data, false),
            ("ports.alu", &p.alu, false),
            ("ports.taken_branch", &p.taken_branch, true),
            ("ports.balanced", &p.balanced, true),
            ("ports.second", &p.second, true),
            ("ports.wide_closes", &p.wide_closes, true),
            ("macro_fusion.result_ports", &self.macro_fusion.result_ports, true),
            ("rename.high_byte_merge", &self.rename.high_byte_merge, true),
        ] {
            if list.is_empty() && !may_be_empty || self.mask(list).is_none() {
                return Err(Error::Parameter(format!("{name} = {list}: not among {}", p.names)));
            }
            if let Some(twice) = twice(list) {
                return Err(Error::Parameter(format!("{name} = {list}: {twice} stands twice")));
            }
        }
        Choice::of_slots("ports.slots", &p.slots)?;
        Choice::of_slots("ports.slots_of_two", &p.slots_of_two)?;
        Ok(())
    }

    /// Rows of measured points and of ranges ascend.
    fn check_points(&self) -> Result<(), Error> {
        for (name, points) in [
            ("string.movsb_cycles", &self.string.movsb_cycles),
            ("string.movsq_cycles", &self.string.movsq_cycles),
            ("string.movsq_odd_cycles", &self.string.movsq_odd_cycles),
            ("string.stosb_cycles", &self.string.stosb_cycles),
            ("string.stosq_cycles", &self.string.stosq_cycles),
            ("string.stosq_odd_cycles", &self.string.stosq_odd_cycles),
        ] {
            if !points.windows(2).all(|p| p[0][0] < p[1][0]) {
                return Err(Error::Parameter(format!("{name}: bytes must ascend")));
            }
        }
        let row = |r: &[u32; 3]| r[0] <= r[1] && (1..=64).contains(&r[2]);
        if !self.loop_buffer.unroll.iter().all(row) {
            let what = "each row must be [from, to, times], times from 1 to 64";
            return Err(Error::Parameter(format!("loop_buffer.unroll: {what}")));
        }
        let row = |r: &[u32; 3]| r[0] <= r[1] && r[2] <= 64;
        if !self.uop_cache.crowded_constants.iter().all(row) {
            let what = "each row must be [from, to, constants], constants up to 64";
            return Err(Error::Parameter(format!("uop_cache.crowded_constants: {what}")));
        }
        Ok(())
    }
}

/// A port that a list names more than once.
fn twice(list: &str) -> Option<char> {
    let times = |port: &char| list.chars().filter(|c| c == port).count();
    list.chars().find(|port| times(port) > 1)
}
