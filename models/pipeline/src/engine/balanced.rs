//! Schedulers that rename fills evenly.

use crate::block::uops::{Role, Uop};
use crate::core::params::{ports, Params};
use crate::core::value::PORTS;
use crate::engine::fingerprint::Fingerprint;
use crate::engine::slots_of_schedulers::{assign, assign_accesses, Accesses, Cycle};
use smallvec::SmallVec;
use std::collections::VecDeque;

/// No entry of a scheduler.
pub const NO_ENTRY: u8 = 255;
/// Loads, and stores, that rename takes in a cycle at most. Zen 4: five of either take another cycle.
const OF_A_ROLE: usize = 4;
/// Accesses with entries of their own that rename takes in a cycle at most, by the schedulers with ports for them that
/// take a uop which computes. Zen 4: five loads and stores go with additions, four beside one or two of load and
/// addition, and three beside three.
const ACCESSES: [usize; 4] = [5, 4, 4, 3];
/// Entries that each scheduler must have free for a cycle of rename. Zen 4: any uop behind 23 that wait stalls.
const FREE: u32 = 2;
/// Entries that a scheduler must have free for a second uop, as rename sees it. Zen 4: none is taken from 19 uops on.
const FREE_FOR_SECOND: u32 = 6;

/// A uop that may be renamed in this cycle: the ports that it can use, and the one that it gets.
type Due = (u32, u8);

/// Uops of each scheduler.
type Counts = [u32; PORTS];

/// What a uop needs of schedulers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// An entry, for ports that compute.
    Compute,
    /// An entry, for ports of accesses.
    Access,
    /// The entry of the uop that computes with it.
    Shared,
}

/// A uop that rename may take in a cycle.
#[derive(Clone, Copy, Debug)]
struct Asked {
    need: Need,
    ports: u32,
    role: Role,
}

/// Port binding at rename, by the numbers of uops in the schedulers.
///
/// The uops of a cycle that compute go to different schedulers, those with the fewest uops, and so do accesses. A load
/// and the uop that computes with it are one entry where each scheduler of the latter has ports for accesses, and so are
/// the address and the data of a store, with the uop that computes the data, such as a constant. What was bound keeps
/// its port where its scheduler is full, and goes before others are bound.
#[derive(Debug)]
pub struct Balanced<'a> {
    p: &'a ports,
    /// Ports of each scheduler.
    schedulers: Vec<u32>,
    /// Ports of uops that compute, one of each scheduler; further ones, for some of these uops; and those of accesses.
    computing: u32,
    special: u32,
    accesses: u32,
    /// The schedulers that take a second uop of a cycle, one that not all can take.
    second: u32,
    /// Entries of each that are in use.
    entries: Counts,
    /// Uops of each as rename sees them.
    seen: Counts,
    /// Uops of each that were bound, and that started, in each of the last cycles, the present one last.
    bound: VecDeque<Counts>,
    started: VecDeque<Counts>,
    /// Uops that compute, and accesses, that are due in this cycle, the next one last.
    due: [SmallVec<[Due; 8]>; 2],
    /// A scheduler has no room for a cycle.
    full: bool,
    /// This cycle ended before a uop for which there was no room.
    stuck: bool,
    /// No uop got a port in this cycle.
    first: bool,
    /// The scheduler of the last store, until its data follows.
    store: u8,
}

impl<'a> Balanced<'a> {
    /// Nothing waits.
    pub fn new(params: &'a Params) -> Balanced<'a> {
        let p = &params.ports;
        let computing = params.mask(&p.balanced).unwrap_or(0);
        let mut schedulers = params.shared().unwrap_or_default();
        schedulers.retain(|_| computing != 0);
        let together = schedulers.iter().fold(0, |all, ports| all | ports);
        let alone = (0..u32::BITS).map(|n| computing & !together & 1 << n);
        schedulers.extend(alone.filter(|port| *port != 0));
        let order = params.masks(&p.balanced).unwrap_or_default();
        schedulers.sort_by_key(|ports| order.iter().position(|port| port & ports != 0));
        let others = if computing == 0 { 0 } else { together & !computing };
        let memory = params.memory_ports();
        let second = params.mask(&p.second).unwrap_or(0);
        Balanced {
            p,
            computing,
            special: others & !memory,
            accesses: others & memory,
            second: bits(schedulers.iter().map(|ports| ports & second)),
            schedulers,
            entries: [0; PORTS],
            seen: [0; PORTS],
            bound: VecDeque::from([[0; PORTS]]),
            started: VecDeque::from([[0; PORTS]]),
            due: [SmallVec::new(), SmallVec::new()],
            full: false,
            stuck: false,
            first: true,
            store: NO_ENTRY,
        }
    }

    /// Whether a uop for these ports gets one of them at rename.
    pub fn applies(&self, ports: u32) -> bool {
        self.kind(ports).is_some()
    }

    /// Whether a load shares an entry with the uop that computes with it, or a store's address with that of its data.
    fn shares(&self, uop: &Uop) -> bool {
        [Role::Load, Role::StoreAddress].contains(&uop.role)
            && self.kind(uop.ports) == Some(1)
            && self.one_entry(uop.beside, uop.ports)
    }

    /// Whether the entry of a store's address holds its data, too.
    fn holds_data(&self, uop: &Uop) -> bool {
        uop.role == Role::StoreAddress && uop.beside != 0 && self.kind(uop.ports) == Some(1)
    }

    /// Whether a uop computes what a store writes, and its entry holds the rest of the store.
    fn computes_data(&self, uop: &Uop) -> bool {
        uop.role == Role::Compute
            && uop.beside != 0
            && self.kind(uop.beside).is_none()
            && self.one_entry(uop.ports, self.accesses)
    }

    /// Whether each scheduler that can take a uop which computes has ports for an access beside it.
    fn one_entry(&self, computes: u32, accesses: u32) -> bool {
        let holds_both = |own: &u32| own & computes == 0 || own & accesses != 0;
        self.kind(computes) == Some(0) && self.schedulers.iter().all(holds_both)
    }

    /// 0 of uops that compute, 1 of accesses.
    fn kind(&self, ports: u32) -> Option<usize> {
        let computes = ports & self.computing != 0 && ports & !(self.computing | self.special) == 0;
        let accesses = ports & self.accesses != 0 && ports & !self.accesses == 0;
        computes.then_some(0).or(accesses.then_some(1))
    }

    /// A cycle begins, before uops start.
    pub fn tick(&mut self) {
        if self.computing == 0 {
            return;
        }
        self.bound.push_back([0; PORTS]);
        self.started.push_back([0; PORTS]);
        if self.bound.len() > self.p.bound_seen as usize {
            add(&mut self.seen, self.bound.pop_front());
        }
        let (seen, entry) = (self.p.started_seen as usize, self.p.entry_freed as usize);
        let ago = |cycles: usize| {
            let n = self.started.len().checked_sub(1 + cycles)?;
            self.started.get(n).copied()
        };
        let (freed, gone) = (ago(entry), ago(seen));
        take(&mut self.entries, freed);
        take(&mut self.seen, gone);
        if self.started.len() > seen.max(entry) {
            self.started.pop_front();
        }
    }

    /// A cycle of rename begins, with these uops next.
    pub fn begin<'b>(&mut self, coming: impl Iterator<Item = &'b Uop>) {
        if self.computing == 0 {
            return;
        }
        self.first = true;
        let most = self.p.balanced_entries.saturating_sub(FREE);
        self.full = self.entries[..self.schedulers.len()]
            .iter()
            .any(|entries| *entries > most);
        if std::mem::take(&mut self.stuck) && self.due.iter().any(|due| !due.is_empty()) {
            return;
        }
        let mut group: SmallVec<[Asked; 16]> = coming.filter_map(|uop| self.asked(uop)).collect();
        self.due = loop {
            if let Some(due) = self.bind(&group) {
                break due;
            }
            group.pop();
        };
    }

    /// What a uop needs of these schedulers.
    fn asked(&self, uop: &Uop) -> Option<Asked> {
        let need = match self.kind(uop.ports)? {
            0 => Need::Compute,
            _ if self.shares(uop) => Need::Shared,
            _ => Need::Access,
        };
        Some(Asked {
            need,
            ports: uop.ports,
            role: uop.role,
        })
    }

    /// Bind uops, in program order, if one cycle takes them all.
    fn bind(&self, group: &[Asked]) -> Option<[SmallVec<[Due; 8]>; 2]> {
        let accesses = || group.iter().filter(|one| one.need != Need::Compute);
        let of_role = |role: Role| accesses().filter(|one| one.role == role).count();
        if of_role(Role::Load) > OF_A_ROLE || of_role(Role::StoreAddress) > OF_A_ROLE {
            return None;
        }
        let ports_of = |need: Need| -> SmallVec<[u32; 8]> {
            let asked = group.iter().filter(|one| one.need == need);
            asked.map(|one| one.ports).collect()
        };
        let open = |uops: &u32| u32::from(uops + FREE_FOR_SECOND <= self.p.balanced_entries);
        let cycle = Cycle {
            schedulers: self.with_ports(self.computing),
            second: self.second & bits(self.seen.iter().map(open)),
        };
        let computing = self.due_to(&ports_of(Need::Compute), |masks| assign(&cycle, masks, &self.seen))?;
        let taken = |least: usize| {
            let uops = |n| computing.iter().filter(|due| self.scheduler(due.1) == Some(n)).count();
            bits((0..self.schedulers.len()).map(|n| u32::from(uops(n) >= least)))
        };
        let own = self.with_ports(self.accesses);
        // Two uops that compute take both entries that a scheduler gets in a cycle.
        let left = own & !taken(2);
        let some = (own & taken(1)).count_ones() as usize;
        let cycle = Accesses {
            schedulers: left,
            second: left & !taken(1),
            most: if left == own {
                ACCESSES[some.min(ACCESSES.len() - 1)]
            } else {
                left.count_ones() as usize
            },
        };
        let accesses = self.due_to(&ports_of(Need::Access), |masks| {
            assign_accesses(&cycle, masks, &self.seen)
        })?;
        Some([computing, accesses])
    }

    /// The ports that uops get from the schedulers of each, the next one last, if the cycle takes them all.
    fn due_to(&self, uops: &[u32], schedulers: impl Fn(&[u32]) -> SmallVec<[usize; 8]>) -> Option<SmallVec<[Due; 8]>> {
        let masks: SmallVec<[u32; 8]> = uops.iter().map(|ports| self.with_ports(*ports)).collect();
        let chosen = schedulers(&masks);
        let due = uops.iter().zip(&chosen);
        let mut due: SmallVec<[Due; 8]> = due.map(|(ports, n)| (*ports, self.port_in(*n, *ports))).collect();
        due.reverse();
        (due.len() == uops.len()).then_some(due)
    }

    /// The schedulers with some of these ports, one bit each.
    fn with_ports(&self, ports: u32) -> u32 {
        bits(self.schedulers.iter().map(|own| own & ports))
    }

    /// The port that a uop for some ports gets in a scheduler.
    fn port_in(&self, scheduler: usize, ports: u32) -> u8 {
        let own = ports & self.schedulers[scheduler];
        let special = own & self.special;
        (if special == 0 { own } else { special }).trailing_zeros() as u8
    }

    fn scheduler(&self, port: u8) -> Option<usize> {
        self.schedulers.iter().position(|own| own & 1 << port != 0)
    }

    /// The port that is due to a uop for some ports, if this cycle takes it.
    fn due(&self, ports: u32) -> Option<u8> {
        let kind = self.kind(ports)?;
        self.due[kind].iter().rev().find(|due| due.0 == ports).map(|due| due.1)
    }

    /// Whether this cycle takes uops.
    pub fn fit<'b>(&mut self, uops: impl Iterator<Item = &'b Uop>) -> bool {
        if self.computing == 0 {
            return true;
        }
        let mut left = [self.due[0].len(), self.due[1].len()];
        let mut more: Counts = [0; PORTS];
        for uop in uops {
            let ports = uop.ports;
            let Some(kind) = self.kind(ports).filter(|_| !self.shares(uop)) else {
                continue;
            };
            let Some(n) = self.due[kind][..left[kind]].iter().rposition(|due| due.0 == ports) else {
                // What no cycle takes whole goes alone.
                return self.first && !self.full;
            };
            left[kind] = n;
            if let Some(scheduler) = self.scheduler(self.due[kind][n].1) {
                more[scheduler] += 1;
            }
        }
        let counts = || self.entries.iter().zip(&more).filter(|(_, more)| **more > 0);
        let fit = counts().all(|(entries, more)| !self.full && entries + more <= self.p.balanced_entries);
        self.stuck |= !fit;
        fit
    }

    /// Give a uop, which can use some ports, the one that is due to it.
    pub fn choose(&mut self, uop: &Uop, ports: u32) -> u8 {
        self.first = false;
        if self.shares(uop) {
            if self.holds_data(uop) {
                return self.port_in(usize::from(self.store), ports);
            }
            let beside = self.due(uop.beside).unwrap_or_else(|| self.lightest(uop.beside));
            return self.scheduler(beside).map_or(0, |n| self.port_in(n, ports));
        }
        let port = self.due(ports).unwrap_or_else(|| self.lightest(ports));
        if self.holds_data(uop) || self.computes_data(uop) {
            self.store = self.scheduler(port).map_or(NO_ENTRY, |n| n as u8);
        }
        if let Some(kind) = self.kind(ports) {
            // Uops before it that are not executed get none.
            while self.due[kind].pop().is_some_and(|due| due.0 != ports) {}
        }
        if let (Some(n), Some(bound)) = (self.scheduler(port), self.bound.back_mut()) {
            self.entries[n] += 1;
            bound[n] += 1;
        }
        port
    }

    /// The port of a uop that was not expected: of the scheduler with the fewest.
    fn lightest(&self, ports: u32) -> u8 {
        let own = |n: &usize| self.schedulers[*n] & ports != 0;
        let scheduler = (0..self.schedulers.len()).filter(own).min_by_key(|n| self.seen[*n]);
        self.port_in(scheduler.unwrap_or(0), ports)
    }

    /// The scheduler whose entry a uop, which was just bound, shares with another of its store.
    pub fn entry(&mut self, uop: &Uop) -> u8 {
        if self.holds_data(uop) {
            self.store
        } else if uop.role == Role::StoreData {
            std::mem::replace(&mut self.store, NO_ENTRY)
        } else {
            NO_ENTRY
        }
    }

    /// A uop starts on the port that it was given.
    pub fn start(&mut self, uop: &Uop, port: usize) {
        if let (Some(n), false) = (
            self.scheduler(port as u8),
            self.shares(uop) || self.holds_data(uop) || self.computes_data(uop),
        ) {
            self.leave(n);
        }
    }

    /// All uops of an entry of a scheduler have started.
    pub fn leave(&mut self, scheduler: usize) {
        if let Some(started) = self.started.back_mut() {
            started[scheduler] += 1;
        }
    }

    /// Tell what the future depends on.
    pub fn fingerprint(&self, into: &mut Fingerprint) {
        let count = self.schedulers.len();
        for counts in self.bound.iter().chain(&self.started) {
            into.add_ports(counts[..count].iter().fold(0, |all, n| all << 8 | u64::from(*n)));
        }
        for (n, entries) in self.entries[..count].iter().enumerate() {
            into.add_ports(u64::from(*entries) << 32 | u64::from(self.seen[n]));
        }
        for due in self.due.iter().flatten().filter(|_| self.stuck) {
            into.add_ports(u64::from(due.0) << 8 | u64::from(due.1));
        }
    }
}

fn add(counts: &mut Counts, more: Option<Counts>) {
    for (count, more) in counts.iter_mut().zip(more.iter().flatten()) {
        *count += more;
    }
}

fn take(counts: &mut Counts, fewer: Option<Counts>) {
    for (count, fewer) in counts.iter_mut().zip(fewer.iter().flatten()) {
        *count = count.saturating_sub(*fewer);
    }
}

/// A bit for each of some masks that is not empty.
fn bits(masks: impl Iterator<Item = u32>) -> u32 {
    masks
        .enumerate()
        .fold(0, |all, (n, mask)| all | u32::from(mask != 0) << n)
}
