//! Sums over a block, worked out once because every cycle asks for them.

use crate::block::builder::Builder;
use crate::block::uops::Uop;
use crate::block::uops::{OUTPUTS, SOURCES};
use crate::block::{indices, SlotKind};
use crate::core::value::UNLIMITED;
use crate::error::Error;

impl Builder<'_> {
    /// No uop may have more inputs or outputs than are followed.
    pub(crate) fn all_followed(&self) -> Result<(), Error> {
        let many = |u: &Uop| u.sources.len() > SOURCES || u.outputs.len() > OUTPUTS;
        for slot in &self.block.slots {
            if self.block.uops[indices(&slot.uops)].iter().any(many) {
                let form = &self.block.names[usize::from(slot.inst)];
                return Err(Error::Block(format!(
                    "{form}: more inputs or outputs of a uop than are followed"
                )));
            }
        }
        Ok(())
    }

    /// Fill in what follows from the uops and the layout of the whole block.
    pub(crate) fn sum_up(&mut self) {
        let block = &mut self.block;
        let periods = block.uops.iter().filter_map(|u| Some(u.split?.period()));
        block.split_period = periods.max().unwrap_or(1);
        let limited = self.params.rename.alu_uops != UNLIMITED;
        let alu = if limited {
            self.params.mask(&self.params.ports.alu).unwrap_or(0)
        } else {
            0
        };
        for slot in &mut block.slots {
            let numbers = &block.store_number[indices(&slot.uops)];
            slot.store = numbers.iter().flatten().next().copied();
        }
        let commit = self.params.memory.commit_bytes;
        if commit != 0 {
            let places = block.places.iter().map(|p| p.period(commit));
            block.split_period = places.max().unwrap_or(1).max(block.split_period);
        }
        let line = self.params.memory.line_bytes;
        let reads = block.reads.iter().map(|p| p.period(line));
        block.split_period = reads.max().unwrap_or(1).max(block.split_period);
        for fused in &mut block.fused {
            fused.branch = fused.first && block.insts[usize::from(fused.inst)].branch;
            for slot in &block.slots[indices(&fused.slots)] {
                fused.stores += u32::from(slot.store.is_some());
                fused.uops += slot.uops.len() as u32;
                fused.serial = fused.serial.or(slot.serial);
                fused.holds = fused.holds.max(slot.holds);
                if slot.kind == SlotKind::Normal {
                    let uops = &block.uops[indices(&slot.uops)];
                    fused.alu += uops.iter().filter(|u| u.ports != 0 && u.ports & !alu == 0).count() as u32;
                }
            }
        }
        block.owner = vec![0; block.uops.len()];
        for slot in &block.slots {
            block.owner[indices(&slot.uops)].fill(slot.inst);
        }
        block.forwards = block.uops.iter().any(Uop::forwarded);
        if !block.forwards {
            block.store_number.fill(None);
        }
    }
}
