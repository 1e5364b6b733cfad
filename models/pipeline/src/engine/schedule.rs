//! Schedulers: uops wait for their inputs and start, the oldest first.

use crate::block::Block;
use crate::core::params::{Assign, Choice, Params};
use crate::engine::events::{Event, Observer};
use crate::engine::flight::{LATER, NONE, ROB_SIZE, SOURCES, UOP_SIZE};
use crate::engine::machine::Machine;
use crate::engine::ready::Ready;

/// State of schedulers and ports.
#[derive(Clone, Debug)]
pub struct State {
    /// Uops that wait.
    pub waiting: u32,
    /// Uops given to each port that have not started.
    pub load: [u32; 24],
    /// The same as rename sees it.
    pub seen: [u32; 24],
    /// Uops that started on each port in the last cycle.
    pub started: [u32; 24],
    /// Ports that load.
    pub load_mask: u32,
    /// Ports that load or store.
    pub memory_mask: u32,
    /// Bytes written to a line that is not full yet.
    pub streamed: u32,
    /// Thousandths of a cycle that full lines still owe.
    pub owed: u32,
    /// Choice that each issue slot takes, among more than two ports and among two.
    pub choices: [[Choice; 4]; 2],
    /// Ties go to the highest port.
    pub high: bool,
    /// Which of two load ports is next.
    pub turn: bool,
    /// Uops with all inputs known. If rename chose their ports, each port has two queues: of
    /// uops that need its busy unit, and before it of all others.
    pub ready: Ready,
    /// If dispatch chooses the ports: the queue of each uop of the block.
    pub queue_of: Vec<u16>,
    /// First cycle at which a port is free.
    pub port_free: [i32; 24],
    /// First cycle at which the slow unit of a port is free.
    pub unit_free: [i32; 24],
    /// Number of ports.
    pub ports: usize,
    /// Ports by how many uops of the block have no other, the fewest first.
    pub order: Vec<u8>,
}

impl State {
    /// Empty schedulers.
    pub fn new(block: &Block, params: &Params, assign: Assign, mut ready: Ready) -> State {
        let ports = params.ports.names.chars().count();
        let mut queue_of = Vec::new();
        if assign == Assign::AtDispatch {
            let mut kinds: Vec<(u32, bool)> = Vec::new();
            for uop in &block.uops {
                let kind = (uop.ports, uop.busy > 1);
                let known = kinds.iter().position(|k| *k == kind);
                queue_of.push(known.unwrap_or(kinds.len()) as u16);
                if known.is_none() {
                    kinds.push(kind);
                }
            }
            ready.reset(kinds.into_iter());
        } else {
            ready.reset((0..2 * ports as u32).map(|n| (1 << (n / 2), n % 2 == 1)));
        }
        State {
            waiting: 0,
            load: [0; 24],
            seen: [0; 24],
            started: [0; 24],
            load_mask: params.mask(&params.ports.load).unwrap_or(0),
            memory_mask: [
                &params.ports.load,
                &params.ports.store_address,
                &params.ports.store_data,
            ]
            .iter()
            .fold(0, |mask, list| mask | params.mask(list).unwrap_or(0)),
            streamed: 0,
            owed: 0,
            choices: [&params.ports.slots, &params.ports.slots_of_two]
                .map(|letters| Choice::of_slots("", letters).unwrap_or([Choice::Rank(0); 4])),
            high: params.ports.tie == "high",
            turn: false,
            ready,
            queue_of,
            port_free: [0; 24],
            unit_free: [0; 24],
            ports,
            order: crate::engine::ports::order(block, ports),
        }
    }
}

impl Machine<'_> {
    /// All inputs of a uop are known.
    pub fn make_ready(&mut self, id: u32) {
        let flight = &mut self.flights[id as usize % UOP_SIZE];
        let waited = flight.operand.wrapping_sub(flight.earliest);
        if (0..self.params.scheduler.late_wakeup as i32).contains(&waited) {
            flight.ready = flight.operand + 1;
        }
        let queue = match self.sched.queue_of.get(flight.uop as usize) {
            Some(&queue) => queue,
            None => 2 * u16::from(flight.port) + u16::from(self.block.uops[flight.uop as usize].busy > 1),
        };
        self.sched.ready.push(self.now, id, flight.ready, queue);
    }

    /// Start uops for a cycle.
    pub fn dispatch_cycle<O: Observer>(&mut self, observer: &mut O) {
        self.sched.ready.arrive(self.now);
        if self.assign == Assign::AtDispatch {
            self.dispatch_any(observer);
            return;
        }
        // What rename sees is the load before this cycle's dispatch, or before that of the last one.
        let age = self.params.ports.counts_age;
        if age > 0 {
            self.sched.seen = self.sched.load;
        }
        if age > 1 {
            for (seen, started) in self.sched.seen.iter_mut().zip(&mut self.sched.started) {
                *seen += std::mem::take(started);
            }
        }
        for port in 0..self.sched.ports {
            while let Some(queue) = self.next_queue(port) {
                if let Some(id) = self.sched.ready.queues[queue].oldest() {
                    self.sched.ready.queues[queue].pop();
                    self.sched.started[port] += u32::from(age > 1);
                    self.start(id, port, observer);
                }
            }
        }
        if age == 0 {
            self.sched.seen = self.sched.load;
        }
    }

    /// The queue that a port takes its next uop from in this cycle.
    fn next_queue(&self, port: usize) -> Option<usize> {
        if self.sched.port_free[port] > self.now {
            return None;
        }
        let first = 2 * port;
        let slow = if self.sched.unit_free[port] > self.now {
            None
        } else {
            self.sched.ready.queues[first + 1].oldest()
        };
        match (self.sched.ready.queues[first].oldest(), slow) {
            (None, None) => None,
            (Some(_), None) => Some(first),
            (Some(id), Some(other)) if id < other => Some(first),
            (_, Some(_)) => Some(first + 1),
        }
    }

    /// Oldest first, each on the first free port that can take it.
    fn dispatch_any<O: Observer>(&mut self, observer: &mut O) {
        let (mut free, mut idle) = (0u32, 0u32);
        for port in 0..self.sched.ports {
            free |= u32::from(self.sched.port_free[port] <= self.now) << port;
            idle |= u32::from(self.sched.unit_free[port] <= self.now) << port;
        }
        loop {
            let can = |ports: u32, slow: bool| ports & free & if slow { idle } else { u32::MAX };
            let mut best: Option<(u32, usize)> = None;
            for (n, queue) in self.sched.ready.queues.iter().enumerate() {
                if let Some(id) = queue.oldest() {
                    if best.is_none_or(|b| id < b.0) && can(queue.ports, queue.slow) != 0 {
                        best = Some((id, n));
                    }
                }
            }
            let Some((id, n)) = best else { break };
            let queue = &mut self.sched.ready.queues[n];
            queue.pop();
            let possible = can(queue.ports, queue.slow);
            let wanted = self.sched.order.iter().find(|p| possible & 1 << **p != 0);
            let port = wanted.map_or(possible.trailing_zeros() as usize, |p| usize::from(*p));
            self.start(id, port, observer);
            free &= !(u32::from(self.sched.port_free[port] > self.now) << port);
            idle &= !(u32::from(self.sched.unit_free[port] > self.now) << port);
        }
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
        self.critical[usize::from(block.owner[flight.uop as usize])] = flight.critical;
        let split = uop.split.map_or(0, |s| s.extra(flight.iteration));
        let until = self.now + i32::from(uop.port_cycles.max(1)) + i32::from(split);
        if self.relief.ports & 1 << port == 0 {
            self.sched.port_free[port] = self.sched.port_free[port].max(until);
        }
        if uop.busy > 1 {
            self.sched.unit_free[port] = self.now + uop.busy as i32;
        }
        if uop.streamed > 0 && self.params.memory.stream_line_cycles > 0.0 {
            self.new_lines(u32::from(uop.streamed));
        }
        self.port_uses[port] += 1 + u64::from(split);
        if let Some(usage) = &mut self.usage {
            usage.started[flight.uop as usize][port] += 1;
        }
        let mut done = self.now + 1;
        self.flights[index].result = self.now + uop.outputs.first().map_or(1, |o| o.latency as i32);
        for (n, output) in uop.outputs.iter().enumerate() {
            let ready = self.now + output.latency as i32;
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
            self.sched.owed += (1000.0 * self.params.memory.stream_line_cycles).round() as u32;
            let pause = self.sched.owed / 1000;
            self.sched.owed %= 1000;
            let until = self.now + 1 + pause as i32;
            for port in (0..self.sched.ports).filter(|p| self.sched.memory_mask & 1 << p != 0) {
                self.sched.port_free[port] = self.sched.port_free[port].max(until);
                self.port_uses[port] += u64::from(pause);
            }
        }
    }

    /// A result is known: tell those who wait for it.
    pub(crate) fn resolve(&mut self, v: u32, ready: i32) {
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
            flight.operand = flight.operand.max(at);
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
