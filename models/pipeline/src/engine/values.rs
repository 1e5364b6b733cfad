//! Results in flight: which registers hold them and which uops wait for them.

use crate::engine::flight::{Held, Value, LATER, NONE, SOURCES, UOP_SIZE};
use crate::engine::machine::Machine;
use crate::isa::inst::Reg;

impl Machine<'_> {
    /// Result of an earlier uop of the same instruction instance.
    pub(crate) fn inner(&self, id: u32, at: u32, wanted: u32) -> Held {
        let distance = at.wrapping_sub(wanted);
        let flight = &self.flights[id.wrapping_sub(distance) as usize % UOP_SIZE];
        if flight.uop != wanted {
            return Held::Since(0, 0);
        }
        if flight.result != LATER || flight.values[0] == NONE {
            return Held::Since(if flight.result == LATER { 0 } else { flight.result }, 0);
        }
        Held::Value(flight.values[0])
    }

    /// Whether a dependency is one of a chain that is lifted; notes it where that is asked for.
    pub(crate) fn cut(&mut self, inst: u16, held: Held, inner: bool) -> bool {
        if self.edges.is_none() && self.relief.chains.is_empty() {
            return false;
        }
        let from = match held {
            // It was there from the start.
            Held::Since(0, _) => return false,
            Held::Since(_, from) => from,
            Held::Value(v) => self.values[v as usize].inst,
        };
        if let (Some(edges), false) = (&mut self.edges, inner) {
            edges.insert((from, inst));
        }
        let chain = |i: u16| self.relief.chains.get(usize::from(i)).copied().unwrap_or(0);
        chain(inst) != 0 && chain(inst) == chain(from)
    }

    pub(crate) fn wait_for(&mut self, index: usize, n: usize, held: Held, extra: u16) {
        let known = match held {
            Held::Since(at, inst) => Some((at, inst)),
            Held::Value(v) => {
                let value = self.values[v as usize];
                (value.ready != LATER).then_some((value.ready, value.inst))
            }
        };
        if let Some((at, inst)) = known {
            let at = at + i32::from(extra);
            let flight = &mut self.flights[index];
            flight.operand = flight.operand.max(at);
            if at > flight.ready {
                flight.ready = at;
                flight.critical = inst;
            }
        } else if let Held::Value(v) = held {
            let link = (index * SOURCES + n) as u32;
            let value = &mut self.values[v as usize];
            self.links[link as usize] = value.waiting;
            self.extra[link as usize] = extra;
            value.waiting = link;
            self.flights[index].pending += 1;
        }
    }

    pub(crate) fn new_value(&mut self, inst: u16) -> u32 {
        let fresh = Value {
            ready: LATER,
            uses: 0,
            waiting: NONE,
            inst,
        };
        if let Some(v) = self.free_values.pop() {
            self.values[v as usize] = fresh;
            return v;
        }
        self.values.push(fresh);
        (self.values.len() - 1) as u32
    }

    /// Change what a register holds.
    pub fn set_held(&mut self, reg: Reg, held: Held) {
        let old = std::mem::replace(&mut self.held[usize::from(reg)], held);
        self.count(held, 1);
        self.count(old, -1);
    }

    pub(crate) fn count(&mut self, held: Held, change: i32) {
        if let Held::Value(v) = held {
            let value = &mut self.values[v as usize];
            value.uses = (i32::from(value.uses) + change).max(0) as u16;
            if value.uses == 0 && value.ready != LATER {
                self.free_values.push(v);
            }
        }
    }
}
