//! Results in flight: what holds them, and which inputs of uops wait for them.

use crate::block::uops::SOURCES;
use crate::engine::flight::{Held, LATER, NONE, UOP_SIZE};

/// A result in flight.
#[derive(Clone, Copy, Debug)]
struct Value {
    /// Cycle at which it is known.
    ready: i32,
    /// Registers and stores that hold it.
    uses: u16,
    /// First waiting input, as place of its uop times [`SOURCES`] plus input.
    waiting: u32,
    /// Instruction that makes it.
    inst: u16,
}

/// All results in flight.
#[derive(Debug)]
pub struct Results {
    values: Vec<Value>,
    /// Unused entries of `values`.
    free: Vec<u32>,
    /// Links between waiting inputs; written before they are read.
    links: Box<[u32; UOP_SIZE * SOURCES]>,
    /// Additional cycles of each waiting input.
    extra: Box<[u16; UOP_SIZE * SOURCES]>,
}

impl Default for Results {
    fn default() -> Self {
        Results {
            values: Vec::with_capacity(1024),
            free: Vec::with_capacity(1024),
            links: Box::new([NONE; UOP_SIZE * SOURCES]),
            extra: Box::new([0; UOP_SIZE * SOURCES]),
        }
    }
}

impl Results {
    /// Forget all results; keeps the memory it has.
    pub fn clear(&mut self) {
        self.values.clear();
        self.free.clear();
    }

    /// A result that an instruction is going to make.
    #[inline]
    pub fn promise(&mut self, inst: u16) -> u32 {
        let fresh = Value {
            ready: LATER,
            uses: 0,
            waiting: NONE,
            inst,
        };
        if let Some(v) = self.free.pop() {
            self.values[v as usize] = fresh;
            return v;
        }
        self.values.push(fresh);
        (self.values.len() - 1) as u32
    }

    /// One more register or store holds it, or one less.
    #[inline]
    pub fn count(&mut self, held: Held, change: i32) {
        if let Held::Value(v) = held {
            let value = &mut self.values[v as usize];
            value.uses = (i32::from(value.uses) + change).max(0) as u16;
            if value.uses == 0 && value.ready != LATER {
                self.free.push(v);
            }
        }
    }

    /// Cycle at which it is known, or [`LATER`].
    #[inline]
    pub fn ready(&self, held: Held) -> i32 {
        match held {
            Held::Since(at, _) => at,
            Held::Value(v) => self.values[v as usize].ready,
        }
    }

    /// Instruction that makes it; `None` if it was there from the start.
    #[inline]
    pub fn maker(&self, held: Held) -> Option<u16> {
        match held {
            Held::Since(0, _) => None,
            Held::Since(_, from) => Some(from),
            Held::Value(v) => Some(self.values[v as usize].inst),
        }
    }

    /// Cycle at which an input that takes `extra` cycles more is known, and the instruction that makes it;
    /// `None` if that is not known yet: then the input `n` of the uop at a place of the ring waits.
    #[inline]
    pub fn ask(&mut self, held: Held, place: usize, n: usize, extra: u16) -> Option<(i32, u16)> {
        let (at, inst) = match held {
            Held::Since(at, inst) => (at, inst),
            Held::Value(v) => {
                let value = &mut self.values[v as usize];
                if value.ready == LATER {
                    let link = place * SOURCES + n;
                    self.links[link] = std::mem::replace(&mut value.waiting, link as u32);
                    self.extra[link] = extra;
                    return None;
                }
                (value.ready, value.inst)
            }
        };
        Some((at + i32::from(extra), inst))
    }

    /// A result is known: tell the inputs that wait for it, by place of their uop, the cycle at which
    /// they are known and the instruction that makes them.
    #[inline]
    pub fn resolve(&mut self, v: u32, ready: i32, mut tell: impl FnMut(usize, i32, u16)) {
        if v == NONE {
            return;
        }
        let value = &mut self.values[v as usize];
        debug_assert!(value.ready == LATER);
        value.ready = ready;
        let inst = value.inst;
        let mut link = std::mem::replace(&mut value.waiting, NONE);
        if value.uses == 0 {
            self.free.push(v);
        }
        while link != NONE {
            let at = ready + i32::from(self.extra[link as usize]);
            tell(link as usize / SOURCES, at, inst);
            link = self.links[link as usize];
        }
    }
}
