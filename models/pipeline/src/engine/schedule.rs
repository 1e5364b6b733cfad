//! Schedulers: uops wait for their inputs and start, the oldest first.

use crate::block::uops::{Role, Uop};
use crate::block::{indices, Block, Fused, Slot, SlotKind};
use crate::core::choice::Assign;
use crate::core::params::Params;
use crate::core::scheduler_pools::POOLS;
use crate::core::value::PORTS;
use crate::engine::ablation::Ablation;
use crate::engine::balanced::NO_ENTRY;
use crate::engine::banks::Banks;
use crate::engine::events::{Event, Observer};
use crate::engine::filled_lines::Lines;
use crate::engine::fingerprint::Fingerprint;
use crate::engine::flight::LATER;
use crate::engine::in_flight::{Flight, InFlight};
use crate::engine::joint::{of_branch, Joint};
use crate::engine::ports::{order, PortChoice, NO_PORT};
use crate::engine::ready::Ready;
use crate::engine::results::Results;
use crate::engine::retire::Retire;
use crate::engine::write_back::WriteBack;

/// Schedulers and ports.
#[derive(Debug)]
pub struct Schedule<'a> {
    block: &'a Block,
    params: &'a Params,
    /// The choice of ports at rename.
    choice: PortChoice<'a>,
    /// Issue chooses the ports that rename leaves open.
    at_issue: bool,
    flights: InFlight,
    /// Uops that wait.
    waiting: u32,
    /// Ports of each scheduler, and the uops that wait in it.
    pools: Vec<u32>,
    waiting_in: [u32; POOLS],
    /// Uops with all inputs known. If rename chose their ports, each port has two queues: of
    /// uops that need its busy unit, and before it of all others.
    ready: Ready,
    /// If issue chooses the ports: the queue of each uop of the block.
    queue_of: Vec<u16>,
    /// The queues of uops that are bound to one port all the same, by port: others, and those that need its busy unit.
    queues_of_port: [[u16; 2]; PORTS],
    /// First cycle at which a port is free.
    port_free: [i32; PORTS],
    /// First cycle at which the slow unit of a port is free.
    unit_free: [i32; PORTS],
    /// Number of ports.
    ports: usize,
    /// Ports by how many uops of the block have no other, the fewest first.
    order: Vec<u8>,
    /// Ports that load or store.
    memory_mask: u32,
    lines: Lines,
    /// The banks that loads of a cycle share, where they limit them.
    banks: Option<Banks<'a>>,
    /// The write-back that results of a port share, where it limits them.
    write_back: Option<WriteBack>,
    /// Ports whose results take the result bus of another, with that port.
    borrowed: Vec<(u32, u32)>,
    /// The ports of which a fused pair with a result takes both.
    joint: Option<Joint>,
    /// Ports that start any number of uops a cycle.
    unlimited: u32,
}

impl<'a> Schedule<'a> {
    /// Empty schedulers; `flights` and `ready` lend their memory.
    pub fn new(
        block: &'a Block,
        params: &'a Params,
        ablation: &Ablation,
        mut flights: InFlight,
        mut ready: Ready,
    ) -> Schedule<'a> {
        let ports = params.ports.names.chars().count();
        let at_issue = params.ports.assign == Assign::AtIssue;
        let choice = PortChoice::new(params);
        let mut queues_of_port = [[0; 2]; PORTS];
        let queue_of = if at_issue {
            let some = block.uops.iter().map(|u| u.ports);
            let bound = some.filter(|p| choice.binds(*p)).fold(0, |all, p| all | p);
            let of_uops = ready.reset_by_kind(&block.uops, bound);
            for (n, queue) in ready.queues.iter().enumerate() {
                if queue.ports.count_ones() == 1 {
                    let port = queue.ports.trailing_zeros() as usize;
                    queues_of_port[port][usize::from(queue.slow)] = n as u16;
                }
            }
            of_uops
        } else {
            ready.reset((0..2 * ports as u32).map(|n| (1 << (n / 2), n % 2 == 1)));
            Vec::new()
        };
        flights.clear();
        Schedule {
            block,
            params,
            choice,
            at_issue,
            flights,
            waiting: 0,
            pools: params.pools().unwrap_or_default(),
            waiting_in: [0; POOLS],
            ready,
            queue_of,
            queues_of_port,
            port_free: [0; PORTS],
            unit_free: [0; PORTS],
            ports,
            order: order(block, ports),
            memory_mask: params.memory_ports(),
            lines: Lines::new(&params.memory),
            banks: Banks::new(block, params),
            write_back: (ablation.ports == 0).then(|| WriteBack::new(block, params)).flatten(),
            borrowed: params.borrowed().unwrap_or_default(),
            joint: at_issue.then(|| Joint::new(block, params)).flatten(),
            unlimited: ablation.ports,
        }
    }

    /// The uops in flight.
    pub fn flights(&self) -> &InFlight {
        &self.flights
    }

    /// A cycle of rename begins, with these slots next.
    pub fn begin(&mut self, coming: impl Iterator<Item = &'a Slot>) {
        self.choice.begin(executed(self.block, coming));
    }

    /// A dispatch slot is renamed, of an instruction of 512 bits or of another.
    pub fn slot(&mut self, wide: bool) {
        self.choice.slot(wide);
    }

    /// Whether so many uops more can be in flight.
    pub fn flights_fit(&mut self, uops: u32) -> bool {
        self.flights.fits(uops)
    }

    /// Whether so many uops more can wait.
    pub fn fits(&self, uops: u32) -> bool {
        self.waiting + uops <= self.params.scheduler.entries
    }

    /// Whether the uops of a fused one can wait, each where those of its ports do.
    pub fn takes(&mut self, fused: &Fused) -> bool {
        if !self.fits(fused.uops) {
            return false;
        }
        let slots = &self.block.slots[indices(&fused.slots)];
        if !self.choice.fit(executed(self.block, slots.iter())) {
            return false;
        }
        if self.pools.is_empty() {
            return true;
        }
        let mut waiting = self.waiting_in;
        for slot in slots {
            for uop in slot.uops.clone() {
                if let Some(n) = self.pool_of(uop) {
                    waiting[n] += 1;
                }
            }
        }
        waiting.iter().all(|count| *count <= self.params.scheduler.pool_entries)
    }

    /// The scheduler that a uop of the block waits in: the first that has a port of it.
    fn pool_of(&self, uop: u32) -> Option<usize> {
        let ports = self.block.uops[uop as usize].ports;
        self.pools.iter().position(|pool| pool & ports != 0)
    }

    /// A renamed uop enters, by its place in the order of those that choose ports; its number.
    pub fn enter(&mut self, now: i32, mut flight: Flight, position: u32) -> u32 {
        let uop = &self.block.uops[flight.uop as usize];
        flight.port = self.choice.choose(uop, position);
        flight.entry = self.choice.entry(uop);
        let pending = flight.pending;
        if let Some(n) = self.pool_of(flight.uop) {
            self.waiting_in[n] += 1;
        }
        let id = self.flights.push(flight);
        self.waiting += 1;
        if pending == 0 {
            self.make_ready(now, id);
        }
        id
    }

    /// Cycle at which the first result of one of the last uops is known, `LATER` until it starts.
    pub fn result(&self, id: u32) -> i32 {
        self.flights.get(id).result
    }

    /// All inputs of a uop are known.
    fn make_ready(&mut self, now: i32, id: u32) {
        let flight = self.flights.of(id);
        let waited = flight.operand.wrapping_sub(flight.earliest);
        if (0..self.params.scheduler.late_wakeup as i32).contains(&waited) {
            flight.ready = flight.operand + 1;
        }
        let queue = match self.queue_of.get(flight.uop as usize) {
            Some(&queue) if flight.port == NO_PORT => queue,
            Some(_) => {
                self.queues_of_port[usize::from(flight.port)]
                    [usize::from(self.block.uops[flight.uop as usize].busy > 1)]
            }
            None => 2 * u16::from(flight.port) + u16::from(self.block.uops[flight.uop as usize].busy > 1),
        };
        let at = flight.ready;
        self.ready.push(now, id, at, queue);
    }

    /// A result is known at a cycle: uops that wait for it may start.
    pub fn wake(&mut self, now: i32, value: u32, at: i32, results: &mut Results) {
        results.resolve(value, at, |place, at, inst| {
            let flight = self.flights.at(place);
            flight.operand = flight.operand.max(at);
            if at >= flight.ready {
                flight.ready = at;
                flight.critical = inst;
            }
            flight.pending -= 1;
            if flight.pending == 0 {
                let id = self.flights.number_of(place);
                self.make_ready(now, id);
            }
        });
    }

    /// Start uops for a cycle.
    pub fn cycle<O: Observer>(&mut self, now: i32, results: &mut Results, retire: &mut Retire, observer: &mut O) {
        self.ready.arrive(now);
        self.choice.tick();
        if let Some(write_back) = &mut self.write_back {
            write_back.begin(now);
        }
        if self.at_issue {
            self.issue_any(now, results, retire, observer);
        } else {
            self.issue_chosen(now, results, retire, observer);
        }
        if let Some(banks) = &mut self.banks {
            banks.release(&mut self.ready);
        }
        if let Some(write_back) = &mut self.write_back {
            write_back.release(&mut self.ready);
        }
    }

    /// Oldest first, each on the port that rename chose.
    fn issue_chosen<O: Observer>(&mut self, now: i32, results: &mut Results, retire: &mut Retire, observer: &mut O) {
        if let Some(banks) = &mut self.banks {
            banks.arbitrate(now, &self.port_free[..self.ports], &mut self.ready, &self.flights);
        }
        self.choice.before_issue();
        for port in 0..self.ports {
            while let Some(queue) = self.next_queue(now, port) {
                let id = self.ready.queues[queue].oldest();
                self.ready.queues[queue].pop();
                if self.without_result(id, 1 << port) == 0 {
                    if self.hold(queue, id) {
                        break;
                    }
                    continue;
                }
                self.start(now, id, port, results, retire, observer);
            }
        }
        self.choice.after_issue();
    }

    /// The queue that a port takes its next uop from in this cycle.
    fn next_queue(&self, now: i32, port: usize) -> Option<usize> {
        let free = self.port_free[port] <= now;
        free.then(|| self.ready.of_port(port, self.unit_free[port] <= now))?
    }

    /// The ports of some that have no result due in the cycle in which a uop that starts now has its own.
    fn without_result(&self, id: u32, ports: u32) -> u32 {
        let write_back = self.write_back.as_ref();
        write_back.map_or(ports, |w| w.free(self.flights.get(id).uop, ports))
    }

    /// Hold a uop, taken from a queue, for this cycle. Returns whether its port starts no other.
    fn hold(&mut self, queue: usize, id: u32) -> bool {
        let ports = self.ready.queues[queue].ports;
        let uop = self.flights.get(id).uop;
        let write_back = self.write_back.as_mut();
        write_back.is_some_and(|w| w.hold(queue, id, uop, ports))
    }

    /// Start the oldest uop of each port whose results take the bus of another. Returns the ports that start no other.
    fn issue_borrowers<O: Observer>(
        &mut self,
        now: i32,
        [free, idle]: [u32; 2],
        results: &mut Results,
        retire: &mut Retire,
        observer: &mut O,
    ) -> u32 {
        let mut closed = 0;
        for n in 0..self.borrowed.len() {
            let (borrower, lender) = self.borrowed[n];
            if self.write_back.as_ref().is_some_and(|w| !w.lends(lender)) {
                closed |= borrower;
                continue;
            }
            let can = borrower & free;
            if let Some((id, queue)) = self.ready.oldest_for([can, can & idle]) {
                self.ready.queues[queue].pop();
                self.start(now, id, borrower.trailing_zeros() as usize, results, retire, observer);
                closed |= borrower;
                if let Some(write_back) = &mut self.write_back {
                    write_back.lend(lender);
                }
            }
        }
        closed & !self.unlimited
    }

    /// Start the branch of a fused pair with a result, if it is its turn. Returns the ports that start no other.
    fn issue_joint(&mut self, now: i32, [free, idle]: [u32; 2], results: &mut Results, retire: &mut Retire) -> u32 {
        let Some(joint) = &mut self.joint else {
            return 0;
        };
        let Some(id) = joint.next(free, idle, &self.ready, &self.flights) else {
            return 0;
        };
        let closed = joint.branches() & !self.unlimited;
        let flight = *self.flights.get(id);
        if joint.start_branch(id) {
            retire.started(flight.rob, now + 1);
            self.free_entry(&flight);
        }
        let outputs = &self.block.uops[flight.uop as usize].outputs;
        for (value, output) in flight.values.iter().zip(outputs).filter(|(_, o)| of_branch(o)) {
            self.wake(now, *value, now + output.latency as i32, results);
        }
        closed
    }

    /// Oldest first, each on the first free port that can take it.
    fn issue_any<O: Observer>(&mut self, now: i32, results: &mut Results, retire: &mut Retire, observer: &mut O) {
        let (mut free, mut idle) = (0u32, 0u32);
        for port in 0..self.ports {
            free |= u32::from(self.port_free[port] <= now) << port;
            idle |= u32::from(self.unit_free[port] <= now) << port;
        }
        free &= !self.issue_borrowers(now, [free, idle], results, retire, observer);
        free &= !self.issue_joint(now, [free, idle], results, retire);
        loop {
            let can = [free, free & idle];
            let Some((id, n)) = self.ready.oldest_for(can) else {
                break;
            };
            let queue = &self.ready.queues[n];
            let possible = self.without_result(id, queue.ports & can[usize::from(queue.slow)]);
            let ports = queue.ports;
            self.ready.queues[n].pop();
            if possible == 0 {
                if self.hold(n, id) {
                    free &= !ports;
                }
                continue;
            }
            if self
                .banks
                .as_mut()
                .is_some_and(|b| b.holds(n, id, self.flights.get(id)))
            {
                continue;
            }
            let mut port = possible.trailing_zeros() as usize;
            if possible & (possible - 1) != 0 {
                let wanted = self.order.iter().find(|p| possible & 1 << **p != 0);
                port = wanted.map_or(port, |p| usize::from(*p));
            }
            self.start(now, id, port, results, retire, observer);
            free &= !(u32::from(self.port_free[port] > now) << port);
            idle &= !(u32::from(self.unit_free[port] > now) << port);
        }
    }

    /// Loads and stores start nothing before a cycle.
    fn pause_memory(&mut self, until: i32) {
        for port in (0..self.ports).filter(|p| self.memory_mask & 1 << p != 0) {
            self.port_free[port] = self.port_free[port].max(until);
        }
    }

    /// All of a uop has started: free its entry, if rename bound it to a port.
    fn free_entry(&mut self, flight: &Flight) {
        if flight.port != NO_PORT {
            let uop = &self.block.uops[flight.uop as usize];
            self.choice.start(uop, usize::from(flight.port));
        }
    }

    fn start<O: Observer>(
        &mut self,
        now: i32,
        id: u32,
        port: usize,
        results: &mut Results,
        retire: &mut Retire,
        observer: &mut O,
    ) {
        let block = self.block;
        let at = self.flights.get(id).uop;
        let uop = &block.uops[at as usize];
        if let Some(n) = self.pool_of(at) {
            self.waiting_in[n] -= 1;
        }
        let split = uop.split.map_or(0, |s| s.extra(self.flights.get(id).iteration));
        let delay = if split > 0 && uop.role == Role::Load {
            self.params.memory.split_load_delay as i32
        } else {
            0
        };
        let latency = uop.outputs.first().map_or(1, |o| o.latency as i32);
        let flight = self.flights.start(id, now + delay + latency);
        if flight.entry != NO_ENTRY {
            // Address and data enter one after the other, in one cycle.
            let other = if uop.role == Role::StoreData {
                id.wrapping_sub(1)
            } else {
                id.wrapping_add(1)
            };
            if self.flights.get(other).result != LATER {
                self.choice.leave(flight.entry);
            }
        }
        let joint = self.joint.as_mut().filter(|joint| joint.parts(at, port));
        let other_part = joint.map(|joint| joint.start_result(id));
        let complete = other_part != Some(false);
        if complete {
            self.free_entry(&flight);
        }
        self.waiting -= 1;
        if let Some(write_back) = &mut self.write_back {
            write_back.start(at, port);
        }
        let until = now + i32::from(uop.port_cycles.max(1)) + i32::from(split) + i32::from(flight.again);
        if self.unlimited & 1 << port == 0 {
            self.port_free[port] = self.port_free[port].max(until);
        }
        if uop.busy > 1 {
            self.unit_free[port] = now + uop.busy as i32;
        }
        if uop.streamed > 0 {
            // Loads and stores pause for each full line that is written to new addresses.
            let most = self.lines.write(u32::from(uop.streamed)).max();
            if let Some(pause) = most {
                self.pause_memory(now + 1 + pause as i32);
            }
        }
        let mut done = now + 1;
        for (value, output) in flight.values.iter().zip(&uop.outputs) {
            if other_part.is_some() && of_branch(output) {
                continue;
            }
            let ready = now + delay + output.latency as i32;
            done = done.max(ready);
            self.wake(now, *value, ready, results);
        }
        if complete {
            retire.started(flight.rob, done);
        }
        observer.on(
            now,
            Event::Issued {
                uop: flight.uop,
                iteration: flight.iteration,
                port: port as u8,
                ready: flight.ready,
                critical: flight.critical,
                done,
            },
        );
    }

    /// Tell what the future depends on; `first` is the number of the first slot of the reorder buffer.
    pub fn fingerprint(&mut self, first: u32, into: &mut Fingerprint) {
        self.flights.fingerprint(first, into);
        for (port, unit) in self.port_free.iter().zip(&self.unit_free).take(self.ports) {
            into.add(into.until(*port) << 20 | into.until(*unit));
        }
        self.choice.fingerprint(self.ports, into);
        self.lines.fingerprint(into);
        if let Some(write_back) = &self.write_back {
            write_back.fingerprint(self.ports, into);
        }
        if let Some(joint) = &self.joint {
            joint.fingerprint(first, &self.flights, into);
        }
    }

    /// Give the memory back.
    pub fn into_parts(self) -> (InFlight, Ready) {
        (self.flights, self.ready)
    }
}

/// The uops in some slots, but for moves that rename can do.
fn executed<'b, I: Iterator<Item = &'b Slot>>(
    block: &'b Block,
    slots: I,
) -> impl Iterator<Item = &'b Uop> + use<'b, I> {
    slots
        .filter(|slot| slot.kind == SlotKind::Normal)
        .flat_map(|slot| &block.uops[indices(&slot.uops)])
}
