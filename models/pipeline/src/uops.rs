//! From an instruction's figures and operands to the uops that are executed.

use crate::figures::{Figures, Label, Shape, ANY, MEM};
use crate::inst::{Decoded, Mem, Reg, NO_REG, VECTOR};
use crate::params::Params;

/// Where a uop's input comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// A register.
    Reg(Reg),
    /// An output of an earlier uop of the same instruction.
    Inner(u16),
    /// The data of a store: store number in the block, iterations back.
    Store(u16, u16),
    /// What a store stores, known to rename: store number, iterations back.
    Stored(u16, u16),
}

/// An input; `extra` cycles pass between its result and the start of the uop.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// Origin.
    pub from: From,
    /// Additional cycles.
    pub extra: u16,
}

/// An output; several registers may carry the same value.
#[derive(Clone, Debug)]
pub struct Output {
    /// Cycles from start to result.
    pub latency: u16,
    /// Registers written.
    pub regs: Vec<Reg>,
}

/// Role of a uop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Reads memory.
    Load,
    /// Computes a store's address.
    StoreAddress,
    /// Supplies a store's data.
    StoreData,
    /// Everything else.
    Compute,
}

/// One executed uop.
#[derive(Clone, Debug)]
pub struct Uop {
    /// Ports that can execute it.
    pub ports: u32,
    /// Role.
    pub role: Role,
    /// Inputs.
    pub sources: Vec<Source>,
    /// Outputs.
    pub outputs: Vec<Output>,
    /// Cycles that its port stays taken.
    pub port_cycles: u16,
    /// Cycles that its unit stays busy (dividers).
    pub busy: u16,
    /// Bytes that it writes to ever new addresses of a loop.
    pub streamed: u16,
}

/// Uops of one instruction and how they are fused.
#[derive(Clone, Debug, Default)]
pub struct Expansion {
    /// Uops in program order.
    pub uops: Vec<Uop>,
    /// Fused uops as the front end carries them: a list of issue slots, each a list of uops.
    pub fused: Vec<Vec<Vec<u16>>>,
    /// How many of the fused uops come from the microcode sequencer (the last ones).
    pub ms: u16,
}

/// What decides which variant of an instruction is executed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Case {
    /// For each load: the store that it reads from and the iterations in between.
    pub forwards: [Option<(u16, u16)>; 2],
    /// The base of the load came from a load and there is no index.
    pub chased: bool,
}

/// Make the uops of an instruction.
pub fn expand(d: &Decoded, figures: &Figures, case: Case, params: &Params) -> Expansion {
    let same = d.same && figures.same.is_some();
    let shape = match (&figures.same, &figures.indexed) {
        (Some(shape), _) if same => shape,
        (_, Some(shape)) if d.indexed() => shape,
        _ => &figures.shape,
    };
    let drop_sources = same && figures.same_breaks;
    let mut roles = assign_roles(shape, d, params);
    // A base register that the address mode updates has a uop of its own.
    let updated = d.writes.iter().find(|w| w.0 == WRITEBACK).map(|w| w.1);
    let update = updated.and_then(|reg| Some((reg, roles.computes.pop()?)));
    let stripped;
    let d = if updated.is_some() {
        let mut copy = d.clone();
        copy.writes.retain(|w| w.0 != WRITEBACK);
        copy.reads.retain(|r| r.0 != MEM);
        stripped = copy;
        &stripped
    } else {
        d
    };
    let mut builder = Builder { d, figures, params, uops: Vec::new() };
    let loads = builder.loads(&roles.loads, case);
    let result = builder.computes(&roles.computes, &loads, drop_sources, !roles.datas.is_empty());
    builder.stores(&roles, result.or(loads.last().copied()));
    if let Some((reg, ports)) = update {
        let sources = vec![Source { from: From::Reg(reg), extra: 0 }];
        builder.push(compute(ports, sources, vec![Output { latency: 1, regs: vec![reg] }]));
    }
    builder.set_busy();
    let uops = builder.uops;
    let fused = fuse(&uops, shape, figures.ms);
    Expansion { fused, ms: figures.ms, uops }
}

/// Label of a base register that the address mode updates.
pub const WRITEBACK: Label = 6;

struct Roles {
    loads: Vec<u32>,
    computes: Vec<u32>,
    addresses: Vec<u32>,
    datas: Vec<u32>,
}

fn assign_roles(shape: &Shape, d: &Decoded, params: &Params) -> Roles {
    let load = params.mask(&params.ports.load).unwrap_or(0);
    let address = params.mask(&params.ports.store_address).unwrap_or(0);
    let data = params.mask(&params.ports.store_data).unwrap_or(0);
    let mut roles = Roles { loads: Vec::new(), computes: Vec::new(), addresses: Vec::new(), datas: Vec::new() };
    let reads = d.mems.iter().any(|m| m.read);
    let writes = d.mems.iter().any(|m| m.write);
    let mut memory = Vec::new();
    for &ports in &shape.ports {
        if writes && ports & !data == 0 {
            roles.datas.push(ports);
        } else if ports & !(load | address) == 0 && (reads || writes) {
            memory.push(ports);
        } else {
            roles.computes.push(ports);
        }
    }
    // Address uops are the ones that can use a port that does not load.
    memory.sort_by_key(|p| (p & !load != 0, *p));
    let addresses = if reads { roles.datas.len().min(memory.len()) } else { memory.len() };
    roles.addresses = memory.split_off(memory.len() - addresses);
    roles.loads = memory;
    roles
}

struct Builder<'a> {
    d: &'a Decoded,
    figures: &'a Figures,
    params: &'a Params,
    uops: Vec<Uop>,
}

/// A set of outputs with the same latency from every input.
struct Profile {
    outputs: Vec<(Label, Reg)>,
    from: Vec<(Source, u16)>,
}

impl Builder<'_> {
    fn push(&mut self, uop: Uop) -> u16 {
        self.uops.push(uop);
        (self.uops.len() - 1) as u16
    }

    fn address_sources(mem: &Mem) -> Vec<Source> {
        [mem.base, mem.index].iter().filter(|r| **r != NO_REG).map(|r| Source { from: From::Reg(*r), extra: 0 }).collect()
    }

    fn load_latency(&self, mem: &Mem) -> u16 {
        let vector = self.d.writes.iter().chain(&self.d.reads).any(|w| (VECTOR..VECTOR + 32).contains(&w.1));
        let m = &self.params.memory;
        (match (vector, mem.bytes > 16) {
            (_, true) => m.load_256_cycles,
            (true, _) => m.load_vector_cycles,
            _ => m.load_cycles,
        }) as u16
    }

    fn loads(&mut self, ports: &[u32], case: Case) -> Vec<u16> {
        let read: Vec<Mem> = self.d.mems.iter().filter(|m| m.read).copied().collect();
        let mut out = Vec::new();
        for (n, &mask) in ports.iter().enumerate() {
            let Some(mem) = read.get(n).or(read.first()) else { continue };
            let mut sources = Self::address_sources(mem);
            let mut latency = self.load_latency(mem);
            if self.pure_load() {
                if let Some(listed) = self.figures.address.first() {
                    latency = listed.1.max(1);
                }
            }
            if case.chased {
                latency = latency.saturating_sub(self.params.memory.pointer_chase_gain as u16).max(1);
            }
            if let Some((store, back)) = self.renamed(mem, case.forwards.get(n).copied().flatten()) {
                sources = vec![Source { from: From::Stored(store, back), extra: 0 }];
                latency = self.params.memory.renamed_forward_cycles as u16;
            } else if let Some(Some((store, back))) = case.forwards.get(n) {
                sources.push(Source { from: From::Store(*store, *back), extra: 1 });
                latency = (self.params.memory.forward_cycles as u16).saturating_sub(1).max(1);
            }
            let port_cycles = if mem.bytes > 16 { self.params.memory.port_cycles_256 as u16 } else { 1 };
            let outputs = vec![Output { latency, regs: Vec::new() }];
            let id = self.push(Uop { ports: mask, role: Role::Load, sources, outputs, port_cycles, busy: 0, streamed: 0 });
            out.push(id);
        }
        out
    }

    /// The store that a load is renamed to, on cores that do so.
    fn renamed(&self, mem: &Mem, forward: Option<(u16, u16)>) -> Option<(u16, u16)> {
        let near = mem.index == NO_REG && (0..=0x3f8).contains(&mem.disp) && mem.disp % 8 == 0;
        forward.filter(|_| near && self.params.memory.renamed_forward_cycles > 0)
    }

    /// Whether the result comes straight from the load ports.
    fn pure_load(&self) -> bool {
        let load = self.params.mask(&self.params.ports.load).unwrap_or(0);
        let shape = self.figures.shape.ports.iter().all(|p| p & !load == 0);
        shape && !self.figures.shape.ports.is_empty()
    }

    /// Inputs of the computation: label and source.
    fn inputs(&self, loads: &[u16], drop: bool) -> Vec<(Label, Source)> {
        let mut inputs: Vec<(Label, Source)> = Vec::new();
        if !drop {
            for &(label, reg) in &self.d.reads {
                inputs.push((label, Source { from: From::Reg(reg), extra: 0 }));
            }
        }
        for &id in loads {
            let direct = self.uops[usize::from(id)].sources.first().map(|s| s.from);
            let from = match direct {
                Some(stored @ From::Stored(..)) => stored,
                _ => From::Inner(id),
            };
            inputs.push((MEM, Source { from, extra: 0 }));
        }
        inputs
    }

    /// Latency from an input to an output; `None`: independent.
    fn latency(&self, from: Label, to: Label) -> Option<u16> {
        let figures = self.figures;
        if from == MEM {
            if let Some(total) = figures.from_address(to) {
                if self.d.mems.is_empty() {
                    return Some(total.max(1));
                }
                let load = self.d.mems.iter().find(|m| m.read).map_or(0, |m| self.load_latency(m));
                return Some(total.saturating_sub(load).max(1));
            }
        }
        match figures.between(from, to) {
            Some(0) => None,
            Some(cycles) => Some(cycles),
            None => Some(self.default_latency(to)),
        }
    }

    fn default_latency(&self, to: Label) -> u16 {
        let listed = self.figures.latency.iter().filter(|l| l.1 == to || l.1 == ANY).map(|l| l.2).max();
        if to == MEM {
            return 1;
        }
        listed.unwrap_or_else(|| self.figures.longest()).max(1)
    }

    fn profiles(&self, inputs: &[(Label, Source)], to_memory: bool) -> Vec<Profile> {
        let mut profiles: Vec<Profile> = Vec::new();
        let mut targets: Vec<(Label, Reg)> = self.d.writes.clone();
        if to_memory {
            targets.push((MEM, NO_REG));
        }
        for (label, reg) in targets {
            let from: Vec<(Source, u16)> =
                inputs.iter().filter_map(|(l, s)| Some((*s, self.latency(*l, label)?))).collect();
            let alike = |p: &Profile| {
                p.from.len() == from.len()
                    && p.from.iter().zip(&from).all(|(a, b)| a.1 == b.1 && a.0.from == b.0.from)
            };
            match profiles.iter_mut().find(|p| alike(p)) {
                Some(profile) => profile.outputs.push((label, reg)),
                None => profiles.push(Profile { outputs: vec![(label, reg)], from }),
            }
        }
        profiles.sort_by_key(|p| p.from.iter().map(|f| f.1).max().unwrap_or(0));
        profiles
    }

    /// Make the computing uops; returns the one whose result a store takes.
    fn computes(&mut self, ports: &[u32], loads: &[u16], drop: bool, to_memory: bool) -> Option<u16> {
        if ports.is_empty() {
            self.load_results(loads);
            return None;
        }
        let stores_result =
            to_memory && (self.d.mems.iter().any(|m| m.read && m.write) || self.d.writes.is_empty());
        let inputs = self.inputs(loads, drop);
        let mut profiles = self.profiles(&inputs, stores_result);
        let mut masks = ports.to_vec();
        let slow = profiles.iter().flat_map(|p| &p.from).any(|f| f.1 >= 3);
        masks.sort_by_key(|m| if slow { m.count_ones() as i32 } else { -(m.count_ones() as i32) });
        while profiles.len() > masks.len() {
            let Some(extra) = profiles.pop() else { break };
            let Some(last) = profiles.last_mut() else { break };
            last.outputs.extend(extra.outputs);
            for (source, latency) in extra.from {
                match last.from.iter_mut().find(|f| f.0.from == source.from) {
                    Some(known) => known.1 = known.1.max(latency),
                    None => last.from.push((source, latency)),
                }
            }
        }
        let mut spare = masks.len() - profiles.len();
        let mut masks = masks.into_iter();
        let mut memory_uop = None;
        let mut previous: Option<(u16, Vec<(Source, u16)>)> = None;
        for profile in profiles {
            let least = profile.from.iter().map(|f| f.1).min().unwrap_or(1);
            let most = profile.from.iter().map(|f| f.1).max().unwrap_or(1);
            let mut sources: Vec<Source> = Vec::new();
            let mut latency = least;
            let mut rest = profile.from.clone();
            if let Some((before, inner)) = chain_step(previous.as_ref(), &profile.from) {
                sources.push(Source { from: From::Inner(before), extra: 0 });
                rest.retain(|f| !inner.contains(&f.0.from));
                latency = chain_latency(previous.as_ref(), &profile.from).unwrap_or(latency).min(latency).max(1);
            } else if spare > 0 && most >= 2 && !rest.is_empty() {
                spare -= 1;
                let (early_latency, late_latency) = if most > least { (most - least, least) } else { (most - 1, 1) };
                let (early, late): (Vec<_>, Vec<_>) = rest.iter().copied().partition(|f| f.1 == most);
                let mask = masks.next().unwrap_or(ports[0]);
                let early = early.iter().map(|f| f.0).collect();
                let id = self.push(compute(mask, early, vec![Output { latency: early_latency, regs: Vec::new() }]));
                sources.push(Source { from: From::Inner(id), extra: 0 });
                rest = late;
                latency = late_latency.max(1);
            }
            for (source, cycles) in &rest {
                sources.push(Source { from: source.from, extra: cycles.saturating_sub(latency) });
            }
            let regs = profile.outputs.iter().map(|o| o.1).filter(|r| *r != NO_REG).collect();
            let mask = masks.next().unwrap_or(ports[0]);
            let id = self.push(compute(mask, sources, vec![Output { latency, regs }]));
            if profile.outputs.iter().any(|o| o.0 == MEM) {
                memory_uop = Some(id);
            }
            previous = Some((id, profile.from));
        }
        let all: Vec<Source> = inputs.iter().map(|i| i.1).collect();
        for mask in masks {
            self.push(compute(mask, all.clone(), Vec::new()));
        }
        memory_uop
    }

    /// Without computing uops the loads write the registers.
    fn load_results(&mut self, loads: &[u16]) {
        let regs: Vec<Reg> = self.d.writes.iter().map(|w| w.1).collect();
        if let (Some(&id), false) = (loads.last(), regs.is_empty()) {
            self.uops[usize::from(id)].outputs[0].regs = regs;
        }
    }

    fn stores(&mut self, roles: &Roles, result: Option<u16>) {
        let written: Vec<Mem> = self.d.mems.iter().filter(|m| m.write).copied().collect();
        for n in 0..roles.addresses.len().max(roles.datas.len()) {
            let Some(mem) = written.get(n).or(written.first()) else { continue };
            let port_cycles = if mem.bytes > 16 { self.params.memory.port_cycles_256 as u16 } else { 1 };
            if let Some(&ports) = roles.addresses.get(n) {
                let sources = Self::address_sources(mem);
                let outputs = vec![Output { latency: 1, regs: Vec::new() }];
                self.push(Uop { ports, role: Role::StoreAddress, sources, outputs, port_cycles: 1, busy: 0, streamed: 0 });
            }
            let Some(&ports) = roles.datas.get(n) else { continue };
            let mut sources = match result {
                Some(id) => vec![Source { from: From::Inner(id), extra: 0 }],
                None => self.stored_registers(mem),
            };
            if roles.addresses.is_empty() {
                sources.extend(Self::address_sources(mem));
            }
            // A load that reads it starts a cycle later at the earliest.
            let outputs = vec![Output { latency: 0, regs: Vec::new() }];
            self.push(Uop { ports, role: Role::StoreData, sources, outputs, port_cycles, busy: 0, streamed: 0 });
        }
    }

    fn stored_registers(&self, mem: &Mem) -> Vec<Source> {
        self.d
            .reads
            .iter()
            .filter(|r| r.1 != mem.base && r.1 != mem.index || r.0 < 8)
            .map(|r| Source { from: From::Reg(r.1), extra: 0 })
            .collect()
    }

    fn set_busy(&mut self) {
        if self.figures.busy > 1 {
            let role = if self.d.locked { Role::StoreData } else { Role::Compute };
            let narrow = self.uops.iter_mut().filter(|u| u.role == role).min_by_key(|u| u.ports.count_ones());
            if let Some(uop) = narrow {
                uop.busy = self.figures.busy;
            }
        }
    }
}

fn compute(ports: u32, sources: Vec<Source>, outputs: Vec<Output>) -> Uop {
    Uop { ports, role: Role::Compute, sources, outputs, port_cycles: 1, busy: 0, streamed: 0 }
}

/// If every latency is that of the previous profile plus the same number of cycles:
/// the uop to depend on and the inputs that it covers.
fn chain_step(previous: Option<&(u16, Vec<(Source, u16)>)>, from: &[(Source, u16)]) -> Option<(u16, Vec<From>)> {
    chain_latency(previous, from)?;
    let (id, before) = previous?;
    Some((*id, before.iter().map(|f| f.0.from).collect()))
}

fn chain_latency(previous: Option<&(u16, Vec<(Source, u16)>)>, from: &[(Source, u16)]) -> Option<u16> {
    let (_, before) = previous?;
    let mut step = None;
    for (source, cycles) in before {
        let later = from.iter().find(|f| f.0.from == source.from)?.1;
        let difference = later.checked_sub(*cycles).filter(|d| *d > 0)?;
        if *step.get_or_insert(difference) != difference {
            return None;
        }
    }
    step
}

/// Fuse uops into `shape.issue` issue slots and those into front-end uops.
fn fuse(uops: &[Uop], shape: &Shape, ms: u16) -> Vec<Vec<Vec<u16>>> {
    let issue = usize::from(shape.issue.max(1));
    let front = usize::from((shape.mite + ms).max(1)).min(issue);
    let mut slots: Vec<Vec<u16>> = (0..uops.len() as u16).map(|i| vec![i]).collect();
    let role = |slot: &[u16]| uops[usize::from(slot[0])].role;
    let mergeable = |a: &[u16], b: &[u16]| match (role(a), role(b)) {
        (Role::StoreAddress, Role::StoreData) => 0,
        (Role::Load, Role::Compute) => 1,
        (Role::Compute, Role::StoreAddress) => 2,
        _ => 3,
    };
    while slots.len() > issue {
        let best = (0..slots.len() - 1)
            .filter(|i| slots[*i].len() == 1 && slots[i + 1].len() == 1)
            .min_by_key(|i| mergeable(&slots[*i], &slots[i + 1]));
        let at = best.unwrap_or(slots.len() - 2);
        let second = slots.remove(at + 1);
        slots[at].extend(second);
    }
    while slots.len() < issue {
        slots.push(Vec::new());
    }
    let mut fused: Vec<Vec<Vec<u16>>> = slots.into_iter().map(|s| vec![s]).collect();
    let first_role = |f: &[Vec<u16>]| f.first().and_then(|s| s.first()).map(|u| uops[usize::from(*u)].role);
    while fused.len() > front {
        let best = (0..fused.len() - 1).filter(|i| fused[*i].len() == 1 && fused[i + 1].len() == 1).min_by_key(|i| {
            match (first_role(&fused[*i]), first_role(&fused[i + 1])) {
                (Some(Role::Load), Some(Role::Compute)) => 0,
                (Some(Role::StoreAddress), Some(Role::StoreData)) => 1,
                _ => 2,
            }
        });
        let at = best.unwrap_or(fused.len() - 2);
        let second = fused.remove(at + 1);
        fused[at].extend(second);
    }
    fused
}
