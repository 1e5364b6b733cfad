//! A fingerprint of the machine's state, to notice when it repeats.

use crate::engine::flight::{Held, LATER, ROB_SIZE, UOP_SIZE};
use crate::engine::machine::Machine;

/// Mixes numbers into one.
struct Mixer(u64);

impl Mixer {
    fn add(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(23) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Machine<'_> {
    /// Move the mark below which every uop has started.
    pub fn forget_started(&mut self) {
        while self.oldest_flight != self.next_flight
            && self.flights[self.oldest_flight as usize % UOP_SIZE].result != LATER
        {
            self.oldest_flight = self.oldest_flight.wrapping_add(1);
        }
    }

    /// Fingerprint of everything that decides what happens next, relative to the
    /// current cycle and to the number of completed iterations; and another one
    /// without the choices of ports.
    pub fn fingerprint(&mut self) -> (u64, u64) {
        let base = self.retire.completed.len() as u32;
        let now = self.now;
        let after = |t: i32| if t == LATER { 0xf_ffff } else { (t - now).max(0) as u64 };
        let mut m = Mixer(u64::from(base % self.block.split_period));
        let mut ports = Mixer(1);
        for w in &self.idq {
            m.add(u64::from(w.fused) << 32 | u64::from(w.iteration.wrapping_sub(base)) << 1 | u64::from(w.wraps));
        }
        m.add(0xabc);
        for q in &self.queue {
            m.add(u64::from(q.inst) << 40 | u64::from(q.iteration.wrapping_sub(base)) << 8 | after(q.ready));
        }
        m.add(0xdef);
        let mut id = self.rob_head;
        while id != self.rob_tail {
            let e = &self.rob[id as usize % ROB_SIZE];
            m.add(u64::from(e.slot) << 32 | u64::from(e.left) << 24 | after(e.done));
            id += 1;
        }
        self.forget_started();
        let mut id = self.oldest_flight;
        while id != self.next_flight {
            let f = &self.flights[id as usize % UOP_SIZE];
            if f.result == LATER {
                m.add(u64::from(f.uop) << 44 | u64::from(f.pending) << 40 | after(f.operand) << 20 | after(f.ready));
                ports.add(u64::from(f.port));
            }
            id = id.wrapping_add(1);
        }
        for held in self
            .held
            .iter()
            .chain(self.stores.iter().flatten())
            .chain(self.stored.iter().flatten())
        {
            let known = match held {
                Held::Since(t, _) => after(*t),
                Held::Value(v) => after(self.values[*v as usize].ready),
            };
            if known != 0 {
                m.add(known);
            } else {
                m.0 = m.0.rotate_left(1);
            }
        }
        for port in 0..self.sched.ports {
            ports.add(u64::from(self.sched.load[port]) << 32 | u64::from(self.sched.started[port]));
            m.add(after(self.sched.port_free[port]) << 20 | after(self.sched.unit_free[port]));
        }
        ports.add(u64::from(self.sched.turn));
        m.add(u64::from(self.sched.streamed));
        m.add(u64::from(self.sched.owed));
        if self.params.memory.commit_bytes != 0 {
            self.commit.fingerprint(base, now, |n| m.add(n));
        }
        for a in &self.rename.aliases {
            m.add(a.regs);
        }
        if self.params.rename.immediate_add_limit > 0 {
            for added in &self.added {
                m.add(*added as u32 as u64);
            }
        }
        m.add(u64::from(self.rename.stall));
        let ago = |iteration: u32| u64::from(iteration.wrapping_sub(base) & 0xffff);
        let streaming = self.plan.streams;
        if (self.predecode.running || streaming) && !self.mode.ideal && !self.lsd.active {
            let next = self.predecode.next;
            m.add(u64::from(next.inst) << 24 | ago(next.iteration) << 8 | u64::from(self.predecode.stall));
            m.add(
                self.predecode
                    .block
                    .map_or(0, |b| 1 | u64::from(b.0 & 3) << 32 | ago(b.1) << 1),
            );
        }
        let d = &self.decode;
        m.add(u64::from(d.stall) << 32 | d.microcode.map_or(0xffff_ffff, |x| u64::from(x.0) << 16 | ago(x.2)));
        let c = &self.cache;
        if c.active && !streaming {
            m.add(u64::from(c.fused) << 32 | ago(c.iteration) << 8 | u64::from(c.stall));
        }
        let l = &self.lsd.next;
        if self.lsd.active || self.mode.ideal {
            m.add(u64::from(l.inst) << 32 | ago(l.iteration));
            m.add(u64::from(l.iteration % self.lsd.copies));
        }
        ports.add(m.0);
        (ports.0, m.0)
    }
}
