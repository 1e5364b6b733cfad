//! The choice of an execution port.

use crate::block::uops::{Role, Uop};
use crate::block::Block;
use crate::core::choice::{Assign, Choice, Tie};
use crate::core::params::{ports, Params};
use crate::core::value::PORTS;
use crate::engine::balanced::Balanced;
use crate::engine::fingerprint::Fingerprint;
use smallvec::SmallVec;

/// No port yet.
pub const NO_PORT: u8 = 255;

/// Ports in the order in which uops with a choice take them: schedulers that know what waits
/// leave those free that others need.
pub fn order(block: &Block, ports: usize) -> Vec<u8> {
    let mut needed = vec![0.0; ports];
    for uop in &block.uops {
        let choices = f64::from(uop.ports.count_ones().max(1));
        for (port, need) in needed.iter_mut().enumerate() {
            if uop.ports & 1 << port != 0 {
                *need += f64::from(uop.busy.max(u32::from(uop.port_cycles)).max(1)) / choices;
            }
        }
    }
    let mut order: Vec<u8> = (0..ports as u8).collect();
    order.sort_by(|a, b| f64::total_cmp(&needed[usize::from(*a)], &needed[usize::from(*b)]));
    order
}

/// Two of the ports that load, which uops for those two take in turn.
#[derive(Debug)]
pub struct Turns {
    /// Ports that load; none where loads take no turns.
    loads: u32,
    /// The lower of the two is next.
    low: bool,
}

impl Turns {
    /// The lower port is first.
    pub fn new(params: &Params) -> Turns {
        let loads = params.mask(&params.ports.load).unwrap_or(0);
        Turns {
            loads: if params.ports.load_turns { loads } else { 0 },
            low: true,
        }
    }

    /// Whether a uop for these ports takes its turn.
    pub fn applies(&self, ports: u32) -> bool {
        ports & !self.loads == 0 && ports.count_ones() == 2
    }

    /// The port of the next such uop.
    pub fn next(&mut self, ports: u32) -> u8 {
        let lowest = ports.trailing_zeros() as u8;
        let highest = 31 - ports.leading_zeros() as u8;
        let port = if self.low { lowest } else { highest };
        self.low = !self.low;
        port
    }

    /// Tell what the future depends on.
    pub fn fingerprint(&self, into: &mut Fingerprint) {
        into.add_ports(u64::from(self.low));
    }
}

/// Ports that vectors do not get near instructions of 512 bits.
#[derive(Debug)]
struct WideVectors {
    /// Those ports; none where issue chooses the ports of uops.
    closed: u32,
    /// Slots for which they stay closed behind such an instruction, and those that are left of them.
    most: u32,
    slots: u32,
    /// Uops of 512 bits that wait.
    waiting: u32,
}

impl WideVectors {
    fn new(params: &Params) -> WideVectors {
        let p = &params.ports;
        let binds = p.assign != Assign::AtIssue;
        WideVectors {
            closed: params.mask(&p.wide_closes).filter(|_| binds).unwrap_or(0),
            most: p.wide_slots,
            slots: 0,
            waiting: 0,
        }
    }

    fn slot(&mut self, wide: bool) {
        self.slots = if wide && self.closed != 0 {
            self.most + 1
        } else {
            self.slots.saturating_sub(1)
        };
    }

    fn waits(&mut self, uop: &Uop) {
        self.waiting += u32::from(uop.wide && self.closed != 0);
    }

    fn starts(&mut self, uop: &Uop) {
        self.waiting -= u32::from(uop.wide && self.closed != 0);
    }

    /// The ports that a uop may get: its own, where it has no others.
    fn open(&self, uop: &Uop) -> u32 {
        let others = uop.ports & !self.closed;
        let near = self.slots + self.waiting > 0;
        if uop.vector && near && others != 0 {
            others
        } else {
            uop.ports
        }
    }

    /// Tell what the future depends on.
    fn fingerprint(&self, into: &mut Fingerprint) {
        into.add_ports(u64::from(self.waiting) << 32 | u64::from(self.slots));
    }
}

/// The dispatch slots of a cycle, where each choice depends on the slots before it.
#[derive(Debug)]
struct Neighbours {
    /// Slots before one that count.
    most: usize,
    /// Whether a choice depends on the uops before it.
    used: bool,
    /// Ports of the uops in each slot of this cycle, the present one last.
    slots: SmallVec<[SmallVec<[u32; 4]>; 8]>,
}

impl Neighbours {
    fn begin(&mut self) {
        self.slots.clear();
    }

    fn slot(&mut self) {
        if self.used {
            self.slots.push(SmallVec::new());
        }
    }

    /// The uops for these ports in this cycle before the present one, which has its slot already.
    fn before(&self, ports: u32) -> usize {
        let same = self.slots.iter().flatten().filter(|of| **of == ports).count();
        same.saturating_sub(1)
    }

    /// The slots that hold no uop for these ports, of those right before the present one, which has one now.
    fn others(&mut self, ports: u32) -> u32 {
        let Some((present, before)) = self.slots.split_last_mut() else {
            return 0;
        };
        present.push(ports);
        let counted = before.iter().rev().take(self.most);
        counted.filter(|slot| !slot.contains(&ports)).count() as u32
    }
}

/// Port binding at rename, by the numbers of waiting uops.
#[derive(Debug)]
pub struct PortChoice<'a> {
    p: &'a ports,
    /// Uops given to each port that have not started.
    load: [u32; PORTS],
    /// The same as rename sees it.
    seen: [u32; PORTS],
    /// Uops that started on each port in the last cycle.
    started: [u32; PORTS],
    /// Uops given to each port in the last cycle of rename, where it does not see them.
    given: [u32; PORTS],
    /// Choice that each dispatch slot takes, among more than two ports and among two.
    choices: [Vec<Choice>; 2],
    /// Ties go to the highest port.
    high: bool,
    turns: Turns,
    balanced: Balanced<'a>,
    wide: WideVectors,
    neighbours: Neighbours,
}

impl<'a> PortChoice<'a> {
    /// Nothing waits.
    pub fn new(params: &'a Params) -> PortChoice<'a> {
        let p = &params.ports;
        let choices = [&p.slots, &p.slots_of_two]
            .map(|letters| Choice::of_slots("", letters).unwrap_or_else(|_| vec![Choice::Rank(0)]));
        let in_turn = choices.iter().flatten().any(|choice| *choice == Choice::InTurn);
        PortChoice {
            p,
            load: [0; PORTS],
            seen: [0; PORTS],
            started: [0; PORTS],
            given: [0; PORTS],
            choices,
            high: p.tie == Tie::High,
            turns: Turns::new(params),
            balanced: Balanced::new(params),
            wide: WideVectors::new(params),
            neighbours: Neighbours {
                most: p.neighbours as usize,
                used: p.neighbours > 0 || in_turn,
                slots: SmallVec::new(),
            },
        }
    }

    /// A dispatch slot is renamed, of an instruction of 512 bits or of another.
    pub fn slot(&mut self, wide: bool) {
        self.wide.slot(wide);
        self.neighbours.slot();
    }

    /// Whether a uop for these ports gets one of them at rename.
    pub fn binds(&self, ports: u32) -> bool {
        self.p.assign != Assign::AtIssue || self.turns.applies(ports) || self.balanced.applies(ports)
    }

    /// A cycle begins, before uops start.
    pub fn tick(&mut self) {
        self.balanced.tick();
    }

    /// A cycle of rename begins, with these uops next.
    pub fn begin<'b>(&mut self, coming: impl Iterator<Item = &'b Uop>) {
        self.neighbours.begin();
        self.balanced.begin(coming);
    }

    /// Whether this cycle of rename has ports for uops, with room in their schedulers.
    pub fn fit<'b>(&mut self, uops: impl Iterator<Item = &'b Uop>) -> bool {
        self.balanced.fit(uops)
    }

    /// Give a uop its port, or leave the choice to issue.
    pub fn choose(&mut self, uop: &Uop, position: u32) -> u8 {
        self.wide.waits(uop);
        let ports = self.wide.open(uop);
        let position = position + self.neighbours.others(ports);
        if !self.binds(ports) {
            return NO_PORT;
        }
        let port = match self.p.assign {
            _ if self.balanced.applies(ports) => self.balanced.choose(uop, ports),
            _ if ports.count_ones() == 1 => ports.trailing_zeros() as u8,
            _ if self.turns.applies(ports) => self.turns.next(ports),
            _ if uop.branch && self.p.branches_balanced => self.least(ports),
            _ if uop.role == Role::Load && self.p.loads_balanced => self.least(ports),
            Assign::LeastLoaded | Assign::AtIssue => self.least(ports),
            Assign::DispatchSlots => self.by_dispatch_slot(ports, position),
        };
        self.load[usize::from(port)] += 1;
        self.given[usize::from(port)] += u32::from(self.p.counts_late);
        port
    }

    /// The scheduler whose entry a uop, which was just bound, shares with another of its store.
    pub fn entry(&mut self, uop: &Uop) -> u8 {
        self.balanced.entry(uop)
    }

    /// Both uops of a store have started, which shared an entry of a scheduler.
    pub fn leave(&mut self, scheduler: u8) {
        self.balanced.leave(usize::from(scheduler));
    }

    /// Rename sees the load before this cycle's issue, or before the previous cycle's.
    pub fn before_issue(&mut self) {
        if self.p.counts_age > 0 {
            self.seen = self.load;
        }
        if self.p.counts_age > 1 {
            for (seen, started) in self.seen.iter_mut().zip(&mut self.started) {
                *seen += std::mem::take(started);
            }
        }
        if self.p.counts_age > 0 {
            self.forget_given();
        }
    }

    /// A uop starts on the port that it was given.
    #[inline]
    pub fn start(&mut self, uop: &Uop, port: usize) {
        self.wide.starts(uop);
        self.balanced.start(uop, port);
        self.started[port] += u32::from(self.p.counts_age > 1);
        self.load[port] = self.load[port].saturating_sub(1);
    }

    /// All that start in a cycle have.
    pub fn after_issue(&mut self) {
        if self.p.counts_age == 0 {
            self.seen = self.load;
            self.forget_given();
        }
    }

    /// Rename does not see the uops that it bound in its last cycle.
    fn forget_given(&mut self) {
        for (seen, given) in self.seen.iter_mut().zip(&mut self.given) {
            *seen = seen.saturating_sub(std::mem::take(given));
        }
    }

    fn least(&self, ports: u32) -> u8 {
        (0..PORTS as u8)
            .filter(|p| ports & 1 << p != 0)
            .min_by_key(|p| (self.load[usize::from(*p)], u8::MAX - p))
            .unwrap_or(0)
    }

    fn by_dispatch_slot(&mut self, ports: u32, position: u32) -> u8 {
        // Keys order ports by load, then by the rule for ties.
        let mut order = [u32::MAX; PORTS];
        let mut count = 0;
        let mut left = ports;
        while left != 0 {
            let p = left.trailing_zeros();
            left &= left - 1;
            let tie = if self.high { 31 - p } else { p };
            let mut key = self.seen[p as usize] << 5 | tie;
            for place in &mut order[..count] {
                if key < *place {
                    std::mem::swap(place, &mut key);
                }
            }
            order[count] = key;
            count += 1;
        }
        let order = &order[..count];
        let tie_of = |key: &u32| key & 31;
        let others = || order[1..].iter().copied();
        let choices = &self.choices[usize::from(count == 2)];
        let (chosen, against) = match choices[position as usize % choices.len()] {
            Choice::Rank(rank) => (order[rank.min(count - 1)], order[rank.min(count - 1)]),
            Choice::InTurn => {
                let next = order[self.neighbours.before(ports) % count];
                (next, next)
            }
            Choice::Highest => (
                others().max_by_key(|k| self.port_of(tie_of(k))).unwrap_or(order[0]),
                order[count - 1],
            ),
            Choice::Lowest => (
                others().min_by_key(|k| self.port_of(tie_of(k))).unwrap_or(order[0]),
                order[count - 1],
            ),
        };
        let apart = (against >> 5) - (order[0] >> 5);
        let key = if apart >= self.p.imbalance { order[0] } else { chosen };
        self.port_of(tie_of(&key))
    }

    /// The port of a key's lower bits, which rank ports by the rule for ties.
    fn port_of(&self, tie: u32) -> u8 {
        (if self.high { 31 - tie } else { tie }) as u8
    }

    /// Tell what the future depends on, of so many ports.
    pub fn fingerprint(&self, ports: usize, into: &mut Fingerprint) {
        for (load, started) in self.load.iter().zip(&self.started).take(ports) {
            into.add_ports(u64::from(*load) << 32 | u64::from(*started));
        }
        for given in self.given.iter().take(ports) {
            into.add_ports(u64::from(*given));
        }
        self.turns.fingerprint(into);
        self.balanced.fingerprint(into);
        self.wide.fingerprint(into);
    }
}
