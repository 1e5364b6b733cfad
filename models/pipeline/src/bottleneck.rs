//! Names what limits a block, from what the units reported.

use crate::machine::Machine;

/// Name of the limiting resource.
pub fn name(machine: &Machine, _cycles: f64) -> String {
    let _ = machine;
    String::new()
}

/// Uses of each port by each instruction, per iteration.
pub fn by_instruction(machine: &Machine, usage: &[[u32; 24]]) -> Vec<Vec<f64>> {
    let block = machine.block;
    let iterations = machine.retire.completed.len().max(1) as f64;
    let mut out = vec![vec![0.0; machine.sched.ports]; block.insts.len()];
    for slot in &block.slots {
        for uop in slot.uops.clone() {
            for (port, cell) in out[usize::from(slot.inst)].iter_mut().enumerate() {
                *cell += f64::from(usage[uop as usize][port]) / iterations;
            }
        }
    }
    out
}
