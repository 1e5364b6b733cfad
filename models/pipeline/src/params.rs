//! Pipeline parameters of a core, read from `core.toml`.
//!
//! Every parameter is a table `{ value, source, confidence }`; [`Params::parse`]
//! keeps the values. A dotted name with a plain value overrides any of them.

use crate::error::Error;
use toml::{Table, Value};

/// Instruction set of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// 64-bit x86.
    X86,
    /// AArch64.
    Arm64,
}

/// How uops are given to execution ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assign {
    /// At rename, by the number of waiting uops of each port, two choices a cycle.
    IssueSlots,
    /// At rename, always the port with the fewest waiting uops.
    LeastLoaded,
    /// When the uop starts: any free port.
    AtDispatch,
}

/// Where instructions come from outside of caches of decoded uops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchKind {
    /// Predecoder, instruction queue, one complex and several simple decoders.
    Predecoded,
    /// Aligned fetch blocks and equal decoders.
    Blocks,
}

/// Rule by which decoded uops are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheRule {
    /// A region is cached only if its uops fit its lines (Intel).
    Region,
    /// An entry holds uops of one line and may be followed by another (AMD).
    Entry,
    /// No cache of decoded uops.
    None,
}

macro_rules! params {
    ($( $table:ident { $( $(#[$doc:meta])* $field:ident : $kind:ident = $default:expr ),* $(,)? } )*) => {
        /// All parameters, one field a parameter, grouped by table: `table.field`.
        #[derive(Clone, Debug)]
        pub struct Params {
            /// Instruction set.
            pub isa: Isa,
            $( #[doc = concat!("Table `", stringify!($table), "`.")] pub $table: $table, )*
        }
        $(
            /// One table of parameters.
            #[allow(non_camel_case_types)]
            #[derive(Clone, Debug)]
            pub struct $table { $( $(#[$doc])* pub $field: params!(@type $kind), )* }
        )*
        impl Params {
            fn read(isa: Isa, root: &Table) -> Result<Params, Error> {
                Ok(Params { isa, $( $table: $table { $(
                    $field: params!(@get $kind)(root, stringify!($table), stringify!($field), $default)?,
                )* }, )* })
            }
            /// Names of all parameters, as overrides spell them.
            pub const NAMES: &'static [&'static str] = &[ $( $( concat!(stringify!($table), ".", stringify!($field)), )* )* ];
        }
    };
    (@type int) => { u32 };
    (@type real) => { f64 };
    (@type flag) => { bool };
    (@type text) => { String };
    (@type triples) => { Vec<[u32; 3]> };
    (@get int) => { get_int };
    (@get real) => { get_real };
    (@get flag) => { get_flag };
    (@get text) => { get_text };
    (@get triples) => { get_triples };
}

params! {
    front_end {
        /// `real`, or `ideal`: the queue in front of rename is always full.
        mode: text = Some("real"),
        /// `predecoded` or `blocks`.
        fetch: text = None,
    }
    predecode {
        /// Bytes of an aligned block handled per cycle.
        block_bytes: int = Some(16),
        /// Instructions per cycle.
        width: int = Some(5),
        /// Instructions that the queue behind it holds.
        queue: int = Some(20),
        /// Cycles until an instruction can be decoded.
        delay: int = Some(3),
        /// Stall of a length-changing prefix, cycles.
        lcp_cycles: int = Some(3),
        /// Instructions fewer in the cycle after such a stall.
        after_cross: int = Some(0),
        /// Stall when a full group is followed by an instruction that crosses the block.
        cross_cycles: int = Some(1),
    }
    fetch {
        /// Bytes of an aligned block fetched per cycle.
        block_bytes: int = Some(32),
        /// Fetched instructions that wait for decode.
        queue: int = Some(16),
        /// Lost cycles of a taken branch.
        taken_bubble: int = Some(0),
        /// Lost cycles of a taken branch where another branch precedes it in the same block.
        dense_bubble: int = Some(0),
    }
    decode {
        /// Instructions per cycle.
        width: int = Some(4),
        /// Uops that the complex decoder emits per cycle.
        complex_uops: int = Some(4),
        /// Whether an instruction that could fuse may use the last decoder.
        fusible_last: flag = Some(false),
        /// Pop of rsp or r12: `any` decoder, the `first` of a group, or it is `alone` from there on.
        pop_r12: text = Some("any"),
        /// Cycles lost to switch to the microcode sequencer and back.
        microcode_cycles: int = Some(2),
        /// Uops that the microcode sequencer emits per cycle.
        microcode_width: int = Some(4),
    }
    uop_cache {
        /// `region`, `entry` or `none`.
        rule: text = None,
        /// Bytes of the aligned region that an entry covers.
        region_bytes: int = Some(32),
        /// Lines per region.
        lines: int = Some(3),
        /// Uops per line.
        line_uops: int = Some(6),
        /// Uops per cycle.
        width: int = Some(4),
        /// Regions or entries read per cycle.
        reads: int = Some(1),
        /// Whether unrolled copies are taken to be in the cache (rule `entry` only).
        unrolled: flag = Some(false),
        /// Whether a cycle may read on after a taken branch.
        joins_iterations: flag = Some(false),
        /// Stall of a switch to microcode, cycles.
        microcode_stall: int = Some(4),
        /// Whether both halves of an aligned 64 bytes must qualify.
        pairs: flag = Some(false),
        /// Whether a branch that touches a 32-byte boundary keeps its region out.
        branch_erratum: flag = Some(false),
    }
    loop_buffer {
        /// Whether small loops are replayed from the queue in front of rename.
        enabled: flag = Some(false),
        /// Uops that it holds.
        uops: int = Some(0),
        /// Unrolling: `[from, to, times]` by uops of the loop.
        unroll: triples = Some(&[]),
    }
    rename {
        /// Fused uops per cycle.
        width: int = None,
        /// Instructions per cycle.
        instructions: int = Some(1000),
        /// Integer uops per cycle that need an arithmetic port.
        alu_uops: int = Some(1000),
        /// Uops that wait in front of rename.
        queue: int = None,
        /// Slots for eliminated moves of general-purpose registers.
        move_slots_gpr: int = Some(0),
        /// Slots for eliminated moves of vector registers.
        move_slots_vec: int = Some(0),
        /// Constant additions done here: none if 0, else the largest sum kept.
        immediate_add_limit: int = Some(0),
        /// Whether rename waits until the schedulers have room for a full group.
        whole_groups: flag = Some(false),
        /// Whether an explicit use of the stack pointer after push or pop costs a uop.
        stack_sync: flag = Some(false),
    }
    scheduler {
        /// Uops that wait for execution.
        entries: int = None,
        /// Least cycles from rename to start.
        delay: int = Some(5),
    }
    ports {
        /// One character a port.
        names: text = None,
        /// `issue_slots`, `least_loaded` or `at_dispatch`.
        assign: text = None,
        /// Difference in waiting uops at which both choices are the same port.
        imbalance: int = Some(3),
        /// Which choice each of four issue slots takes: 0 the least loaded port, 1 the second, 2 the third.
        slots: text = Some("0101"),
        /// `high` or `low`: which port wins a tie.
        tie: text = Some("high"),
        /// What advances the issue slot: `slots`, or `computing` uops only.
        position: text = Some("slots"),
        /// Counts that rename sees: `fresh`, or `stale` by a cycle.
        counts: text = Some("fresh"),
        /// Ports that load.
        load: text = None,
        /// Ports that compute store addresses.
        store_address: text = None,
        /// Ports that store data.
        store_data: text = None,
        /// Ports of a stack-pointer update.
        alu: text = None,
    }
    memory {
        /// Load latency, general-purpose.
        load_cycles: int = Some(5),
        /// Load latency, vector.
        load_vector_cycles: int = Some(6),
        /// Load latency, 256-bit.
        load_256_cycles: int = Some(7),
        /// Cycles saved if the base came from a load and there is no index.
        pointer_chase_gain: int = Some(0),
        /// From the store's data to the load's result, same address.
        forward_cycles: int = Some(5),
        /// The same if base register and displacement match and it is renamed; 0: never.
        renamed_forward_cycles: int = Some(0),
        /// Cycles that loads and stores pause for each 64 bytes written to new addresses.
        stream_line_cycles: int = Some(0),
        /// Cycles that a 256-bit access keeps its port.
        port_cycles_256: int = Some(1),
    }
    retire {
        /// Fused uops per cycle.
        width: int = None,
        /// Fused uops in flight.
        reorder_buffer: int = None,
    }
    macro_fusion {
        /// Branches fused by whole class, `cmp_test` for compare and test only, `table` for the figures' own.
        pairs: text = Some("none"),
        /// Aligned bytes at whose start a branch does not fuse; 0: no limit.
        boundary_bytes: int = Some(0),
    }
    taken_branch {
        /// Taken branches per cycle in the small target buffer.
        cycles: int = Some(1),
    }
    string {
        /// Copy: cycles before the first byte.
        movs_startup: real = Some(0.0),
        /// Copy by bytes: cycles before the first byte, if more.
        movsb_startup: real = Some(0.0),
        /// Copy: bytes per cycle.
        movs_rate: real = Some(0.0),
        /// Copy: bytes per cycle if the destination is not aligned; 0: unknown.
        movs_rate_unaligned: real = Some(0.0),
        /// Fill: cycles before the first byte.
        stos_startup: real = Some(0.0),
        /// Fill: bytes per cycle.
        stos_rate: real = Some(0.0),
        /// Fill: bytes per cycle if the destination is not aligned; 0: unknown.
        stos_rate_unaligned: real = Some(0.0),
        /// Alignment of the destination that the plain rates need, bytes.
        alignment: int = Some(32),
        /// Repetitions assumed where the call gives none.
        count: int = Some(64),
        /// Destination address mod 64 assumed where the call gives none.
        destination: int = Some(0),
    }
    serial {
        /// Cycles of `stac` and of `clac`.
        stac_clac: int = Some(0),
        /// Cycles of `lfence` once the pipeline is empty.
        lfence: int = Some(0),
        /// Cycles of `mfence`.
        mfence: int = Some(0),
    }
}

impl Params {
    /// Read the parameters from the text of `core.toml`, then apply `overrides`
    /// (dotted names; `front_end=ideal` is short for `front_end.mode=ideal`).
    ///
    /// # Errors
    /// Names the parameter that is missing, unknown or of the wrong kind.
    pub fn parse(text: &str, overrides: &[(String, String)]) -> Result<Params, Error> {
        let mut root: Table = text.parse().map_err(|e| Error::Parameter(format!("core.toml: {e}")))?;
        for (name, value) in overrides {
            let name = if name == "front_end" { "front_end.mode" } else { name };
            if !Self::NAMES.contains(&name) {
                return Err(Error::Parameter(format!("{name}: no such parameter")));
            }
            let (table, key) = name.split_once('.').unwrap_or((name, ""));
            let parsed = format!("v = {value}")
                .parse::<Table>()
                .ok()
                .and_then(|t| t.get("v").cloned())
                .unwrap_or_else(|| Value::String(value.clone()));
            let slot = root.entry(table).or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(slot) = slot {
                slot.insert(key.to_string(), parsed);
            }
        }
        let isa = match root.get("isa").and_then(Value::as_str) {
            Some("x86_64") => Isa::X86,
            Some("arm64") => Isa::Arm64,
            other => return Err(Error::Parameter(format!("isa: {}", other.unwrap_or("missing")))),
        };
        if !root.contains_key("rename") {
            return Err(Error::NoModel);
        }
        let params = Self::read(isa, &root)?;
        params.check()?;
        Ok(params)
    }

    fn check(&self) -> Result<(), Error> {
        let positive = [
            ("rename.width", self.rename.width),
            ("rename.queue", self.rename.queue),
            ("rename.instructions", self.rename.instructions),
            ("rename.alu_uops", self.rename.alu_uops),
            ("scheduler.entries", self.scheduler.entries),
            ("retire.width", self.retire.width),
            ("predecode.width", self.predecode.width),
            ("decode.width", self.decode.width),
            ("decode.microcode_width", self.decode.microcode_width),
            ("uop_cache.width", self.uop_cache.width),
            ("uop_cache.reads", self.uop_cache.reads),
            ("uop_cache.line_uops", self.uop_cache.line_uops),
            ("fetch.queue", self.fetch.queue),
        ];
        for (name, value) in positive {
            if value == 0 || value > 4096 {
                return Err(Error::Parameter(format!("{name} = {value}: must be from 1 to 4096")));
            }
        }
        let limited = [
            ("scheduler.delay", self.scheduler.delay, 0, 100),
            ("retire.reorder_buffer", self.retire.reorder_buffer, self.rename.width, 1024),
            ("decode.complex_uops", self.decode.complex_uops, 1, 64),
            ("predecode.queue", self.predecode.queue, self.predecode.width, 4096),
            ("predecode.delay", self.predecode.delay, 0, 100),
            ("predecode.lcp_cycles", self.predecode.lcp_cycles, 0, 100),
            ("predecode.cross_cycles", self.predecode.cross_cycles, 0, 100),
            ("decode.microcode_cycles", self.decode.microcode_cycles, 0, 100),
            ("uop_cache.microcode_stall", self.uop_cache.microcode_stall, 0, 100),
            ("fetch.taken_bubble", self.fetch.taken_bubble, 0, 100),
            ("fetch.dense_bubble", self.fetch.dense_bubble, 0, 100),
            ("memory.load_cycles", self.memory.load_cycles, 1, 1000),
            ("memory.load_vector_cycles", self.memory.load_vector_cycles, 1, 1000),
            ("memory.load_256_cycles", self.memory.load_256_cycles, 1, 1000),
            ("memory.forward_cycles", self.memory.forward_cycles, 0, 1000),
            ("memory.port_cycles_256", self.memory.port_cycles_256, 1, 100),
            ("memory.stream_line_cycles", self.memory.stream_line_cycles, 0, 1000),
            ("memory.renamed_forward_cycles", self.memory.renamed_forward_cycles, 0, 1000),
            ("taken_branch.cycles", self.taken_branch.cycles, 1, 100),
            ("serial.stac_clac", self.serial.stac_clac, 0, 10_000),
            ("serial.lfence", self.serial.lfence, 0, 10_000),
            ("serial.mfence", self.serial.mfence, 0, 10_000),
        ];
        for (name, value, least, most) in limited {
            if value < least || value > most {
                return Err(Error::Parameter(format!("{name} = {value}: must be from {least} to {most}")));
            }
        }
        for (name, bytes) in [
            ("predecode.block_bytes", self.predecode.block_bytes),
            ("fetch.block_bytes", self.fetch.block_bytes),
            ("uop_cache.region_bytes", self.uop_cache.region_bytes),
        ] {
            if !bytes.is_power_of_two() || bytes > 4096 {
                return Err(Error::Parameter(format!("{name} = {bytes}: must be a power of two up to 4096")));
            }
        }
        if self.ports.names.is_empty() || self.ports.names.chars().count() > 24 {
            return Err(Error::Parameter("ports.names: must name 1 to 24 ports".into()));
        }
        for (name, list) in [
            ("ports.load", &self.ports.load),
            ("ports.store_address", &self.ports.store_address),
            ("ports.store_data", &self.ports.store_data),
            ("ports.alu", &self.ports.alu),
        ] {
            if list.is_empty() || self.mask(list).is_none() {
                return Err(Error::Parameter(format!("{name} = {list}: not among {}", self.ports.names)));
            }
        }
        for (name, value, known) in [
            ("decode.pop_r12", &self.decode.pop_r12, &["any", "first", "alone"][..]),
            ("ports.tie", &self.ports.tie, &["high", "low"][..]),
            ("ports.position", &self.ports.position, &["slots", "computing"][..]),
            ("ports.counts", &self.ports.counts, &["fresh", "stale"][..]),
        ] {
            if !known.contains(&value.as_str()) {
                return Err(Error::Parameter(format!("{name} = {value}: {}", known.join(" or "))));
            }
        }
        if self.ports.slots.len() != 4 || !self.ports.slots.bytes().all(|c| (b'0'..=b'9').contains(&c)) {
            return Err(Error::Parameter(format!("ports.slots = {}: four digits", self.ports.slots)));
        }
        if self.predecode.after_cross >= self.predecode.width {
            return Err(Error::Parameter("predecode.after_cross: must be less than predecode.width".into()));
        }
        self.assign()?;
        self.fetch_kind()?;
        self.cache_rule()?;
        if !matches!(self.front_end.mode.as_str(), "real" | "ideal") {
            return Err(Error::Parameter(format!("front_end.mode = {}: real or ideal", self.front_end.mode)));
        }
        if !matches!(self.macro_fusion.pairs.as_str(), "none" | "table" | "cmp_test" | "flags" | "any") {
            return Err(Error::Parameter(format!("macro_fusion.pairs = {}: unknown", self.macro_fusion.pairs)));
        }
        Ok(())
    }

    /// Bit mask of the named ports; `None` if one of them does not exist.
    pub fn mask(&self, list: &str) -> Option<u32> {
        list.chars().try_fold(0, |mask, c| Some(mask | 1 << self.ports.names.chars().position(|p| p == c)?))
    }

    /// Choices by issue slot, see `ports.slots`.
    pub fn ranks(&self) -> [usize; 4] {
        let mut ranks = [0; 4];
        for (rank, c) in ranks.iter_mut().zip(self.ports.slots.bytes()) {
            *rank = usize::from(c.saturating_sub(b'0'));
        }
        ranks
    }

    /// Port assignment policy.
    ///
    /// # Errors
    /// The value is not one of the known policies.
    pub fn assign(&self) -> Result<Assign, Error> {
        match self.ports.assign.as_str() {
            "issue_slots" => Ok(Assign::IssueSlots),
            "least_loaded" => Ok(Assign::LeastLoaded),
            "at_dispatch" => Ok(Assign::AtDispatch),
            other => Err(Error::Parameter(format!("ports.assign = {other}: unknown"))),
        }
    }

    /// Kind of instruction fetch.
    ///
    /// # Errors
    /// The value is not one of the known kinds.
    pub fn fetch_kind(&self) -> Result<FetchKind, Error> {
        match self.front_end.fetch.as_str() {
            "predecoded" => Ok(FetchKind::Predecoded),
            "blocks" => Ok(FetchKind::Blocks),
            other => Err(Error::Parameter(format!("front_end.fetch = {other}: unknown"))),
        }
    }

    /// Rule of the uop cache.
    ///
    /// # Errors
    /// The value is not one of the known rules.
    pub fn cache_rule(&self) -> Result<CacheRule, Error> {
        match self.uop_cache.rule.as_str() {
            "region" => Ok(CacheRule::Region),
            "entry" => Ok(CacheRule::Entry),
            "none" => Ok(CacheRule::None),
            other => Err(Error::Parameter(format!("uop_cache.rule = {other}: unknown"))),
        }
    }
}

fn find<'a>(root: &'a Table, table: &str, key: &str) -> Option<&'a Value> {
    let item = root.get(table)?.as_table()?.get(key)?;
    match item {
        Value::Table(inner) => inner.get("value"),
        plain => Some(plain),
    }
}

fn wrong(table: &str, key: &str, what: &str) -> Error {
    Error::Parameter(format!("{table}.{key}: {what}"))
}

fn get_int(root: &Table, table: &str, key: &str, default: Option<u32>) -> Result<u32, Error> {
    match find(root, table, key) {
        Some(v) => v
            .as_integer()
            .and_then(|i| u32::try_from(i).ok())
            .ok_or_else(|| wrong(table, key, "must be a whole number that is not negative")),
        None => default.ok_or_else(|| wrong(table, key, "missing")),
    }
}

fn get_real(root: &Table, table: &str, key: &str, default: Option<f64>) -> Result<f64, Error> {
    match find(root, table, key) {
        Some(v) => v
            .as_float()
            .or_else(|| v.as_integer().map(|i| i as f64))
            .filter(|f| f.is_finite() && *f >= 0.0 && *f <= 1e6)
            .ok_or_else(|| wrong(table, key, "must be a number from 0 to 1e6")),
        None => default.ok_or_else(|| wrong(table, key, "missing")),
    }
}

fn get_flag(root: &Table, table: &str, key: &str, default: Option<bool>) -> Result<bool, Error> {
    match find(root, table, key) {
        Some(v) => v.as_bool().ok_or_else(|| wrong(table, key, "must be true or false")),
        None => default.ok_or_else(|| wrong(table, key, "missing")),
    }
}

fn get_text(root: &Table, table: &str, key: &str, default: Option<&str>) -> Result<String, Error> {
    match find(root, table, key) {
        Some(Value::Integer(i)) => Ok(i.to_string()),
        Some(v) => v.as_str().map(str::to_string).ok_or_else(|| wrong(table, key, "must be text")),
        None => default.map(str::to_string).ok_or_else(|| wrong(table, key, "missing")),
    }
}

fn get_triples(root: &Table, table: &str, key: &str, _: Option<&[[u32; 3]]>) -> Result<Vec<[u32; 3]>, Error> {
    let Some(value) = find(root, table, key) else { return Ok(Vec::new()) };
    let bad = || wrong(table, key, "must be a list of [from, to, times]");
    let rows = value.as_array().ok_or_else(bad)?;
    rows.iter()
        .map(|row| {
            let row = row.as_array().filter(|r| r.len() == 3).ok_or_else(bad)?;
            let mut out = [0; 3];
            for (slot, v) in out.iter_mut().zip(row) {
                *slot = v.as_integer().and_then(|i| u32::try_from(i).ok()).filter(|i| *i <= 1000).ok_or_else(bad)?;
            }
            Ok(out)
        })
        .collect()
}
