//! Schedulers that uops for arithmetic ports and memory accesses share.

use crate::core::params::Params;
use crate::core::value::PORTS;
use crate::engine::fingerprint::Fingerprint;

/// The choice of a port for an access, by what its scheduler has.
#[derive(Debug)]
pub struct SharedSchedulers {
    /// Ports of each.
    schedulers: Vec<u32>,
    /// Ports of them that accesses use.
    pub accesses: u32,
    /// Uops that each takes in a cycle, and those that wait in each at most.
    most: u32,
    entries: u32,
    /// Uops of this cycle that each port has got or is due to get.
    taken: [u32; PORTS],
    /// The port behind the one that the last access got.
    next: u32,
}

impl SharedSchedulers {
    /// Nothing waits.
    pub fn new(params: &Params) -> SharedSchedulers {
        let p = &params.ports;
        let schedulers = params.shared().unwrap_or_default();
        let all = schedulers.iter().fold(0, |all, ports| all | ports);
        let rotated = params.mask(&p.rotated).unwrap_or(0);
        SharedSchedulers {
            schedulers,
            accesses: all & !rotated,
            most: p.shared_uops.min(p.rotated_entries),
            entries: p.rotated_entries,
            taken: [0; PORTS],
            next: 0,
        }
    }

    /// Whether a uop for these ports is an access that gets one of them.
    pub fn applies(&self, ports: u32) -> bool {
        ports != 0 && ports & !self.accesses == 0
    }

    /// Whether each has room for what it takes in a cycle.
    pub fn fit(&self, load: &[u32; PORTS]) -> bool {
        let mut waiting = self.schedulers.iter().map(|ports| sum(*ports, load));
        waiting.all(|count| count + self.most <= self.entries)
    }

    /// A cycle begins.
    pub fn begin(&mut self) {
        self.taken = [0; PORTS];
    }

    /// A uop of this cycle gets a port.
    pub fn take(&mut self, port: u8) {
        self.taken[usize::from(port)] += 1;
    }

    /// Give an access one of some ports: of those whose scheduler takes more in this cycle one that has got the
    /// fewest of its accesses, of these the one in whose scheduler the fewest uops wait.
    pub fn choose(&mut self, ports: u32, load: &[u32; PORTS]) -> u8 {
        let next = self.next;
        let in_turn = (0..u32::BITS).map(|n| (next + n) % u32::BITS);
        let port = in_turn.filter(|port| ports & 1 << port != 0).min_by_key(|port| {
            let own = self
                .schedulers
                .iter()
                .find(|own| *own & 1 << port != 0)
                .copied()
                .unwrap_or(0);
            let full = sum(own, &self.taken) >= self.most;
            (full, self.taken[*port as usize], sum(own, load))
        });
        let port = port.unwrap_or(0) as u8;
        self.note(port);
        port
    }

    /// An access gets a port.
    pub fn note(&mut self, port: u8) {
        if self.applies(1 << port) {
            self.take(port);
            self.next = u32::from(port) + 1;
        }
    }

    /// Tell what the future depends on.
    pub fn fingerprint(&self, into: &mut Fingerprint) {
        into.add_ports(u64::from(self.next));
    }
}

/// The sum of some ports' counts.
fn sum(ports: u32, counts: &[u32; PORTS]) -> u32 {
    let of = |(port, count): (usize, &u32)| if ports & 1 << port != 0 { *count } else { 0 };
    counts.iter().enumerate().map(of).sum()
}
