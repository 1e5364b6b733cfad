//! Schedulers: uops wait for their inputs and start, the oldest first.

use crate::events::{Event, Observer};
use crate::flight::{LATER, NONE, ROB_SIZE, SOURCES, UOP_SIZE};
use crate::machine::Machine;
use crate::params::{Assign, Params};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A uop with all inputs known.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// Number of the uop.
    pub id: u32,
    /// Earliest start.
    pub at: i32,
    /// Needs a unit that stays busy.
    pub slow: bool,
}

/// State of schedulers and ports.
#[derive(Clone, Debug)]
pub struct State {
    /// Uops that wait.
    pub waiting: u32,
    /// Uops given to each port that have not started.
    pub load: [u32; 24],
    /// The same as rename sees it.
    pub seen: [u32; 24],
    /// Ports that load.
    pub load_mask: u32,
    /// Ports that load or store.
    pub memory_mask: u32,
    /// Bytes written to a line that is not full yet.
    pub streamed: u32,
    /// Rank of the choice that each issue slot takes.
    pub ranks: [usize; 4],
    /// Ties go to the highest port.
    pub high: bool,
    /// Which of two load ports is next.
    pub turn: bool,
    /// Uops with all inputs known, by port; the last list is for any port.
    pub ready: Vec<Vec<Ready>>,
    /// By port, uops that could start now, the oldest on top.
    pub startable: Vec<BinaryHeap<Reverse<u32>>>,
    /// First cycle at which a port is free.
    pub port_free: [i32; 24],
    /// First cycle at which the slow unit of a port is free.
    pub unit_free: [i32; 24],
    /// Number of ports.
    pub ports: usize,
}

impl State {
    /// Empty schedulers.
    pub fn new(params: &Params) -> State {
        let ports = params.ports.names.chars().count();
        State {
            waiting: 0,
            load: [0; 24],
            seen: [0; 24],
            load_mask: params.mask(&params.ports.load).unwrap_or(0),
            memory_mask: [
                &params.ports.load,
                &params.ports.store_address,
                &params.ports.store_data,
            ]
            .iter()
            .fold(0, |mask, list| mask | params.mask(list).unwrap_or(0)),
            streamed: 0,
            ranks: params.ranks(),
            high: params.ports.tie == "high",
            turn: false,
            ready: vec![Vec::new(); ports + 1],
            startable: vec![BinaryHeap::new(); ports],
            port_free: [0; 24],
            unit_free: [0; 24],
            ports,
        }
    }

    /// Keep the loads of this moment for rename.
    pub fn snapshot(&mut self) {
        self.seen = self.load;
    }
}

impl Machine<'_> {
    /// All inputs of a uop are known.
    pub fn make_ready(&mut self, id: u32) {
        let flight = &self.flights[id as usize % UOP_SIZE];
        let list = if flight.port == 255 {
            self.sched.ports
        } else {
            usize::from(flight.port)
        };
        let slow = self.block.uops[flight.uop as usize].busy > 1;
        self.sched.ready[list].push(Ready {
            id,
            at: flight.ready,
            slow,
        });
    }

    /// Start uops for a cycle.
    pub fn dispatch_cycle<O: Observer>(&mut self, observer: &mut O) {
        if self.assign == Assign::AtDispatch {
            self.dispatch_any(observer);
            return;
        }
        let now = self.now;
        for port in 0..self.sched.ports {
            let heap = &mut self.sched.startable[port];
            self.sched.ready[port].retain(|r| {
                if r.at <= now {
                    heap.push(Reverse(r.id));
                }
                r.at > now
            });
            if self.sched.port_free[port] > now {
                continue;
            }
            if let Some(id) = self.oldest(port) {
                self.start(id, port, observer);
            }
        }
    }

    /// Take the oldest uop that a port can start; one that needs its busy unit waits.
    fn oldest(&mut self, port: usize) -> Option<u32> {
        let mut set_aside = Vec::new();
        let mut found = None;
        while let Some(Reverse(id)) = self.sched.startable[port].pop() {
            let slow = self.block.uops[self.flights[id as usize % UOP_SIZE].uop as usize].busy > 1;
            if slow && self.sched.unit_free[port] > self.now {
                set_aside.push(Reverse(id));
                continue;
            }
            found = Some(id);
            break;
        }
        self.sched.startable[port].extend(set_aside);
        found
    }

    /// Oldest first, each on the first free port that can take it.
    fn dispatch_any<O: Observer>(&mut self, observer: &mut O) {
        let list = self.sched.ports;
        if self.sched.ready[list].is_empty() {
            return;
        }
        let mut ready = std::mem::take(&mut self.sched.ready[list]);
        ready.sort_unstable_by_key(|r| r.id);
        let mut free = 0u32;
        for port in 0..self.sched.ports {
            free |= u32::from(self.sched.port_free[port] <= self.now) << port;
        }
        let mut kept = Vec::with_capacity(ready.len());
        for r in ready {
            if r.at > self.now || free == 0 {
                kept.push(r);
                continue;
            }
            let uop = &self.block.uops[self.flights[r.id as usize % UOP_SIZE].uop as usize];
            let mut choice = uop.ports & free;
            if choice == 0 {
                kept.push(r);
                continue;
            }
            if r.slow {
                choice &= (0..self.sched.ports as u32)
                    .filter(|p| self.sched.unit_free[*p as usize] <= self.now)
                    .fold(0, |m, p| m | 1 << p);
                if choice == 0 {
                    kept.push(r);
                    continue;
                }
            }
            let port = choice.trailing_zeros() as usize;
            free &= !(1 << port);
            self.start(r.id, port, observer);
        }
        // Uops that became ready in this cycle are already in the list.
        kept.append(&mut self.sched.ready[list]);
        self.sched.ready[list] = kept;
    }

    fn start<O: Observer>(&mut self, id: u32, port: usize, observer: &mut O) {
        let index = id as usize % UOP_SIZE;
        let flight = self.flights[index];
        let block = self.block;
        let uop = &block.uops[flight.uop as usize];
        if self.assign != Assign::AtDispatch {
            self.sched.load[port] = self.sched.load[port].saturating_sub(1);
        }
        self.sched.waiting -= 1;
        let inst = block.slots[self.rob[flight.rob as usize % ROB_SIZE].slot as usize].inst;
        self.critical[usize::from(inst)] = flight.critical;
        let until = self.now + i32::from(uop.port_cycles.max(1));
        self.sched.port_free[port] = self.sched.port_free[port].max(until);
        if uop.busy > 1 {
            self.sched.unit_free[port] = self.now + i32::from(uop.busy);
        }
        if uop.streamed > 0 && self.params.memory.stream_line_cycles > 0 {
            self.new_lines(u32::from(uop.streamed));
        }
        self.port_uses[port] += 1;
        if let Some(usage) = &mut self.usage {
            usage.started[flight.uop as usize][port] += 1;
        }
        let mut done = self.now + 1;
        self.flights[index].result = self.now + uop.outputs.first().map_or(1, |o| i32::from(o.latency));
        for (n, output) in uop.outputs.iter().take(4).enumerate() {
            let ready = self.now + i32::from(output.latency);
            done = done.max(ready);
            self.resolve(flight.values[n], ready);
        }
        let entry = &mut self.rob[flight.rob as usize % ROB_SIZE];
        entry.left = entry.left.saturating_sub(1);
        entry.done = entry.done.max(done);
        observer.on(
            self.now,
            Event::Dispatched {
                uop: flight.uop,
                iteration: flight.iteration,
                port: port as u8,
                ready: flight.ready,
                critical: flight.critical,
                done,
            },
        );
    }

    /// Loads and stores pause for each full line that is written to new addresses.
    fn new_lines(&mut self, bytes: u32) {
        self.sched.streamed += bytes;
        while self.sched.streamed >= 64 {
            self.sched.streamed -= 64;
            let until = self.now + 1 + self.params.memory.stream_line_cycles as i32;
            for port in (0..self.sched.ports).filter(|p| self.sched.memory_mask & 1 << p != 0) {
                self.sched.port_free[port] = self.sched.port_free[port].max(until);
                self.port_uses[port] += u64::from(self.params.memory.stream_line_cycles);
            }
        }
    }

    /// A result is known: tell those who wait for it.
    fn resolve(&mut self, v: u32, ready: i32) {
        if v == NONE {
            return;
        }
        let value = &mut self.values[v as usize];
        debug_assert!(value.ready == LATER);
        value.ready = ready;
        let (inst, uses) = (value.inst, value.uses);
        let mut link = std::mem::replace(&mut value.waiting, NONE);
        if uses == 0 {
            self.free_values.push(v);
        }
        while link != NONE {
            let index = link as usize / SOURCES;
            let at = ready + i32::from(self.extra[link as usize]);
            let next = self.links[link as usize];
            let flight = &mut self.flights[index];
            if at >= flight.ready {
                flight.ready = at;
                flight.critical = inst;
            }
            flight.pending -= 1;
            if flight.pending == 0 {
                let id = self.number_of(index);
                self.make_ready(id);
            }
            link = next;
        }
    }

    /// Number of the uop in a place of the ring.
    fn number_of(&self, index: usize) -> u32 {
        let last = self.next_flight.wrapping_sub(1);
        let back = (last as usize % UOP_SIZE + UOP_SIZE - index) % UOP_SIZE;
        last.wrapping_sub(back as u32)
    }
}
