//! Calls of a few instructions, with the addresses that they access.

use crate::common::bytes;
use loopwright_pipeline::calls::{run_all, CallCost, Request};
use loopwright_pipeline::core::Core;
use loopwright_pipeline::error::Error;
use loopwright_pipeline::isa::inst::{Decoded, Effect, Mem, NO_REG, REGS};
use loopwright_pipeline::isa::{decode, Isa};

/// A step as a trace packs it.
pub fn step(at: u32, repeats: u32, load: i64, store: i64) -> Vec<u8> {
    let head = [at, repeats].map(u32::to_le_bytes).concat();
    let addresses = [load, store].map(i64::to_le_bytes).concat();
    [head, addresses].concat()
}

pub fn ask(core: &Core, code: &[u8], offset: u32, steps: Vec<u8>) -> Result<CallCost, Error> {
    let request = Request {
        code: code.to_vec(),
        offset,
        steps,
    };
    run_all(core, &[request], 1).remove(0)
}

/// Runs code: every register starts at an address of its own, aligned to 4096 bytes, indices at 0.
pub struct Registers([i64; REGS]);

impl Registers {
    pub fn new(code: &[Decoded]) -> Registers {
        let mut values = [0; REGS];
        for (n, value) in values.iter_mut().enumerate() {
            // Different places of a page, in whole lines.
            *value = (n as i64 + 1) * 0x10_0000 + 256 * n as i64;
        }
        for mem in code.iter().flat_map(|d| &d.mems).filter(|m| m.index != NO_REG) {
            values[usize::from(mem.index)] = 0;
        }
        Registers(values)
    }

    fn address(&self, mem: &Mem) -> i64 {
        let value = |reg: u8| if reg == NO_REG { 0 } else { self.0[usize::from(reg)] };
        value(mem.base) + value(mem.index) * i64::from(mem.scale) + mem.disp
    }

    pub fn step(&mut self, d: &Decoded) -> Vec<u8> {
        let find = |wanted: fn(&Mem) -> bool| d.mems.iter().find(|m| wanted(m)).map_or(-1, |m| self.address(m));
        let (load, store) = (find(|m| m.read), find(|m| m.write));
        for effect in &d.effects {
            if let Effect::Offset { to, from, add } = *effect {
                self.0[usize::from(to)] = self.0[usize::from(from)] + add;
            }
        }
        step(d.offset, 1, load, store)
    }
}

/// A call that turns a loop so many times, and then jumps back to its start.
pub fn turns(isa: Isa, hex: &str, count: usize) -> (Vec<u8>, Vec<u8>) {
    let mut code = bytes(hex);
    let body = decode(isa, &code).expect("code");
    let (end, mut registers) = (code.len(), Registers::new(&body));
    let mut steps: Vec<u8> = (0..count)
        .flat_map(|_| body.iter().flat_map(|d| registers.step(d)).collect::<Vec<_>>())
        .collect();
    match isa {
        Isa::X86 => {
            code.push(0xe9);
            code.extend((-(end as i32 + 5)).to_le_bytes());
        }
        Isa::Arm64 => code.extend((0x1400_0000 | (-(end as i32 / 4)) as u32 & 0x3ff_ffff).to_le_bytes()),
    }
    steps.extend(step(end as u32, 1, -1, -1));
    (code, steps)
}

/// Cycles that a turn more takes, behind some turns that fill the schedulers.
pub fn slope(core: &Core, hex: &str, offset: u32, from: usize) -> f64 {
    let call = |count| {
        let (code, steps) = turns(core.params.isa, hex, count);
        ask(core, &code, offset, steps).expect("a prediction").cycles
    };
    (call(512) - call(from)) / (512 - from) as f64
}
