//! Limits of parameters, so that no value can break the simulation.

use crate::error::Error;
use crate::params::{Choice, Params};

impl Params {
    /// Check all parameters.
    ///
    /// # Errors
    /// Names the parameter that is out of range.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let positive = [
            ("rename.width", self.rename.width),
            ("rename.queue", self.rename.queue),
            ("rename.instructions", self.rename.instructions),
            ("rename.alu_uops", self.rename.alu_uops),
            ("scheduler.entries", self.scheduler.entries),
            ("retire.width", self.retire.width),
            ("predecode.width", self.predecode.width),
            ("decode.width", self.decode.width),
            ("decode.microcode_width", self.decode.microcode_width),
            ("uop_cache.width", self.uop_cache.width),
            ("uop_cache.reads", self.uop_cache.reads),
            ("uop_cache.line_uops", self.uop_cache.line_uops),
            ("fetch.queue", self.fetch.queue),
        ];
        for (name, value) in positive {
            if value == 0 || value > 4096 {
                return Err(Error::Parameter(format!("{name} = {value}: must be from 1 to 4096")));
            }
        }
        let limited = [
            ("scheduler.delay", self.scheduler.delay, 0, 100),
            ("scheduler.late_wakeup", self.scheduler.late_wakeup, 0, 2),
            ("ports.counts_age", self.ports.counts_age, 0, 2),
            (
                "retire.reorder_buffer",
                self.retire.reorder_buffer,
                self.rename.width,
                1024,
            ),
            ("predecode.queue", self.predecode.queue, self.predecode.width, 4096),
            ("predecode.delay", self.predecode.delay, 0, 100),
            ("predecode.lcp_cycles", self.predecode.lcp_cycles, 0, 100),
            ("predecode.cross_cycles", self.predecode.cross_cycles, 0, 100),
            ("decode.microcode_cycles", self.decode.microcode_cycles, 0, 100),
            ("uop_cache.microcode_stall", self.uop_cache.microcode_stall, 0, 100),
            ("fetch.taken_bubble", self.fetch.taken_bubble, 0, 100),
            ("memory.load_cycles", self.memory.load_cycles, 1, 1000),
            ("memory.load_vector_cycles", self.memory.load_vector_cycles, 1, 1000),
            ("memory.load_256_cycles", self.memory.load_256_cycles, 1, 1000),
            ("memory.forward_cycles", self.memory.forward_cycles, 0, 1000),
            ("memory.port_cycles_256", self.memory.port_cycles_256, 1, 100),
            (
                "memory.renamed_forward_cycles",
                self.memory.renamed_forward_cycles,
                0,
                1000,
            ),
            ("taken_branch.cycles", self.taken_branch.cycles, 1, 100),
            ("taken_branch.level", self.taken_branch.level, 0, 2),
            ("taken_branch.second_bubble", self.taken_branch.second_bubble, 0, 100),
            ("taken_branch.third_bubble", self.taken_branch.third_bubble, 0, 100),
            ("taken_branch.dense_level", self.taken_branch.dense_level, 0, 3),
            ("taken_branch.dense_bubble", self.taken_branch.dense_bubble, 0, 100),
            (
                "memory.failed_forward_cycles",
                self.memory.failed_forward_cycles,
                0,
                1000,
            ),
            ("memory.misaligned_by", self.memory.misaligned_by, 0, 63),
            ("memory.split_load_cycles", self.memory.split_load_cycles, 0, 100),
            ("memory.split_store_cycles", self.memory.split_store_cycles, 0, 100),
            (
                "memory.forward_update_cycles",
                self.memory.forward_update_cycles,
                0,
                1000,
            ),
            ("memory.forward_part_cycles", self.memory.forward_part_cycles, 0, 1000),
            (
                "memory.forward_vector_cycles",
                self.memory.forward_vector_cycles,
                0,
                1000,
            ),
            ("memory.renamed_step", self.memory.renamed_step, 1, 4096),
            ("memory.renamed_bytes", self.memory.renamed_bytes, 1, 64),
            ("memory.store_queue", self.memory.store_queue, 2, 1024),
            ("serial.stac_clac", self.serial.stac_clac, 0, 10_000),
            ("serial.lfence", self.serial.lfence, 0, 10_000),
            ("serial.mfence", self.serial.mfence, 0, 10_000),
        ];
        for (name, value, least, most) in limited {
            if value < least || value > most {
                return Err(Error::Parameter(format!(
                    "{name} = {value}: must be from {least} to {most}"
                )));
            }
        }
        if self.memory.stream_line_cycles > 1000.0 {
            let cycles = self.memory.stream_line_cycles;
            return Err(Error::Parameter(format!(
                "memory.stream_line_cycles = {cycles}: must be from 0 to 1000"
            )));
        }
        for (name, bytes) in [
            ("predecode.block_bytes", self.predecode.block_bytes),
            ("fetch.block_bytes", self.fetch.block_bytes),
            ("uop_cache.region_bytes", self.uop_cache.region_bytes),
            ("taken_branch.dense_bytes", self.taken_branch.dense_bytes),
            ("memory.split_load_bytes", self.memory.split_load_bytes),
            ("memory.split_store_bytes", self.memory.split_store_bytes),
        ] {
            if !bytes.is_power_of_two() || bytes > 4096 {
                return Err(Error::Parameter(format!(
                    "{name} = {bytes}: must be a power of two up to 4096"
                )));
            }
        }
        let commit = self.memory.commit_bytes;
        if commit != 0 && (!commit.is_power_of_two() || commit > 4096) {
            return Err(Error::Parameter(format!(
                "memory.commit_bytes = {commit}: must be 0 or a power of two up to 4096"
            )));
        }
        if self.ports.names.is_empty() || self.ports.names.chars().count() > 24 {
            return Err(Error::Parameter("ports.names: must name 1 to 24 ports".into()));
        }
        for (name, list) in [
            ("ports.load", &self.ports.load),
            ("ports.store_address", &self.ports.store_address),
            ("ports.store_data", &self.ports.store_data),
            ("ports.alu", &self.ports.alu),
        ] {
            if list.is_empty() || self.mask(list).is_none() {
                return Err(Error::Parameter(format!(
                    "{name} = {list}: not among {}",
                    self.ports.names
                )));
            }
        }
        for (name, value, known) in [
            ("decode.pop_r12", &self.decode.pop_r12, &["any", "first", "alone"][..]),
            ("memory.renames", &self.memory.renames, &["none", "base", "any"][..]),
            ("ports.position", &self.ports.position, &["slots", "computing"][..]),
            ("ports.tie", &self.ports.tie, &["high", "low"][..]),
        ] {
            if !known.contains(&value.as_str()) {
                return Err(Error::Parameter(format!("{name} = {value}: {}", known.join(" or "))));
            }
        }
        Choice::of_slots("ports.slots", &self.ports.slots)?;
        Choice::of_slots("ports.slots_of_two", &self.ports.slots_of_two)?;
        self.assign()?;
        self.fetch_kind()?;
        self.cache_rule()?;
        if !matches!(self.front_end.mode.as_str(), "real" | "ideal") {
            return Err(Error::Parameter(format!(
                "front_end.mode = {}: real or ideal",
                self.front_end.mode
            )));
        }
        if !matches!(
            self.macro_fusion.pairs.as_str(),
            "none" | "table" | "cmp_test" | "flags" | "any"
        ) {
            return Err(Error::Parameter(format!(
                "macro_fusion.pairs = {}: unknown",
                self.macro_fusion.pairs
            )));
        }
        Ok(())
    }
}
