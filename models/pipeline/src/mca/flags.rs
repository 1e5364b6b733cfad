//! The flags of the command line, as llvm-mca spells them.

use crate::isa::Isa;
use crate::mca::cores::Cores;

/// The request of a command line.
#[derive(Clone, Debug)]
pub enum Asked {
    /// An analysis.
    Analysis(Box<Flags>),
    /// The list of flags.
    Help,
    /// The version.
    Version,
}

/// An analysis that is asked for.
#[derive(Clone, Debug)]
pub struct Flags {
    /// File to read; `-` is standard input.
    pub file: String,
    /// File to write.
    pub output: Option<String>,
    /// Core, by LLVM's name or by id.
    pub cpu: Option<String>,
    /// Instruction set that the command line names.
    pub march: Option<(String, Isa)>,
    /// Features for the assembler.
    pub mattr: Option<String>,
    /// Iterations simulated.
    pub iterations: u32,
    /// Print JSON.
    pub json: bool,
    /// Print the summary.
    pub summary: bool,
    /// Print figures of each instruction.
    pub info: bool,
    /// Only figures of each instruction by itself.
    pub tables: bool,
    /// Print the encoding of each instruction.
    pub encoding: bool,
    /// Print the use of ports.
    pub pressure: bool,
    /// Print the limits of the block.
    pub bottlenecks: bool,
    /// Print the timeline.
    pub timeline: bool,
    /// Iterations of the timeline.
    pub timeline_iterations: u32,
    /// Cycles of the timeline at most.
    pub timeline_cycles: u32,
    /// Print how many uops are dispatched in a cycle.
    pub dispatch: bool,
    /// Print how many uops are issued in a cycle.
    pub scheduler: bool,
    /// Print how many uops retire in a cycle.
    pub retire: bool,
    /// Print the code offset and what other offsets cost.
    pub alignment: bool,
    /// Code offset of each region's first byte; else where the assembler or linker put it.
    pub offset: Option<u32>,
    /// Print instructions in Intel syntax.
    pub intel_output: bool,
    /// The assembly text is in Intel syntax.
    pub intel_input: bool,
    /// Print immediates in hexadecimal.
    pub hex: bool,
    /// Leave out instructions without figures.
    pub skip_unsupported: bool,
    /// Parameters of the core that flags set.
    pub overrides: Vec<(String, String)>,
}

impl Flags {
    /// Refuse flags that name another instruction set than the core has.
    ///
    /// # Errors
    /// Names the flag.
    pub fn fits(&self, isa: Isa) -> Result<(), String> {
        match &self.march {
            Some((name, named)) if *named != isa => {
                Err(format!("{name}: the core that -mcpu names has another instruction set"))
            }
            _ => Ok(()),
        }
    }
}

impl Default for Flags {
    fn default() -> Self {
        Flags {
            file: "-".into(),
            output: None,
            cpu: None,
            march: None,
            mattr: None,
            iterations: 100,
            json: false,
            summary: true,
            info: true,
            tables: false,
            encoding: false,
            pressure: true,
            bottlenecks: false,
            timeline: false,
            timeline_iterations: 10,
            timeline_cycles: 80,
            dispatch: false,
            scheduler: false,
            retire: false,
            alignment: true,
            offset: None,
            intel_output: false,
            intel_input: false,
            hex: false,
            skip_unsupported: false,
            overrides: Vec::new(),
        }
    }
}

/// Flags that are on or off.
const SWITCHES: &[(&str, &str)] = &[
    ("all-stats", "all statistics: dispatch, scheduler, retire"),
    ("all-views", "all sections"),
    ("bottleneck-analysis", "cycles an iteration by each limit alone"),
    (
        "code-alignment",
        "code offset, line boundary, cycles at the 64 offsets (on)",
    ),
    ("dispatch-stats", "cycles by the number of uops dispatched"),
    ("help", "this text"),
    (
        "instruction-info",
        "uops, latency and throughput of each instruction (on)",
    ),
    (
        "instruction-tables",
        "figures of each instruction by itself; nothing is simulated",
    ),
    ("json", "JSON"),
    (
        "noalias",
        "loads and stores do not alias unless their addresses agree (on; off is refused)",
    ),
    ("print-imm-hex", "immediates in hexadecimal"),
    ("resource-pressure", "use of ports (on)"),
    ("retire-stats", "cycles by the number of uops retired"),
    ("scheduler-stats", "cycles by the number of uops issued"),
    ("show-encoding", "machine code of each instruction"),
    ("summary-view", "summary (on)"),
    ("timeline", "timeline of the first iterations"),
    ("version", "version"),
];

/// Flags with a value, and what it is.
const VALUES: &[(&str, &str, &str)] = &[
    (
        "code-offset",
        "N",
        "address mod 64 of each region's first byte, 0 to 63",
    ),
    ("dispatch", "N", "dispatch width of the core"),
    ("iterations", "N", "iterations (100)"),
    ("march", "NAME", "x86-64 or aarch64"),
    ("mattr", "LIST", "features, for llvm-mc"),
    ("mcpu", "NAME", "core, by LLVM's name or by id"),
    ("micro-op-queue", "N", "entries of the queue in front of rename"),
    ("mtriple", "TRIPLE", "x86_64-... or aarch64-..."),
    ("o", "FILE", "output file"),
    ("output-asm-variant", "N", "1: Intel syntax"),
    (
        "skip-unsupported-instructions",
        "WHICH",
        "none, lack-sched or any: leave out instructions without figures",
    ),
    ("squeue", "N", "entries of the store queue"),
    ("timeline-max-cycles", "N", "cycles of the timeline (80; 0: all)"),
    ("timeline-max-iterations", "N", "iterations of the timeline (10)"),
    (
        "x86-asm-syntax",
        "NAME",
        "att or intel: syntax of the input and the output",
    ),
];

/// Flags of llvm-mca that mean nothing to this simulator, and why.
const REFUSED: &[(&str, &str)] = &[
    (
        "call-latency",
        "a call's cost is that of its code: loopwright predict --sizes simulates whole calls",
    ),
    ("debug", "the simulator has no such output"),
    (
        "decoder-throughput",
        "decoders are simulated: set decode.width in core.toml",
    ),
    ("disable-cb", "there are no custom behaviours"),
    ("lqueue", "the load queue is no limit in this simulator"),
    (
        "register-file-size",
        "physical registers are no limit in this simulator",
    ),
    (
        "register-file-stats",
        "physical registers are no limit in this simulator",
    ),
    ("show-barriers", "fences are simulated; no view lists them"),
];

/// The list of flags.
pub fn help(cores: &Cores) -> String {
    let mut text = String::from(
        "usage: loopwright mca [FLAGS] [FILE]\n\n\
         Throughput of the regions of FILE (assembly or an ELF object; standard input if left out), by\n\
         the pipeline simulator. Regions are marked by LLVM-MCA-BEGIN and LLVM-MCA-END, OSACA-BEGIN and\n\
         OSACA-END in comments, or by IACA's instructions; without markers all of the code is one region.\n\
         A region that ends in a branch is a loop; of any other, copies follow each other.\n\n",
    );
    let mut row = |flag: String, what: &str| text.push_str(&format!("  {flag:<34} {what}\n"));
    for (name, what) in SWITCHES {
        row(format!("-{name}"), what);
    }
    for (name, value, what) in VALUES {
        row(format!("-{name}={value}"), what);
    }
    text.push_str(&format!("\ncores: {}\n", cores.names().join(", ")));
    text
}

/// Read a command line, its program's name left out.
///
/// # Errors
/// A flag is unknown or has no meaning here, or its value is none: one line that names it.
pub fn read(arguments: &[String]) -> Result<Asked, String> {
    let mut flags = Flags::default();
    let mut file: Option<&str> = None;
    let mut left = arguments.iter();
    while let Some(argument) = left.next() {
        let Some(flag) = argument.strip_prefix('-').filter(|rest| !rest.is_empty()) else {
            if let Some(first) = file.replace(argument) {
                return Err(format!("{first} and {argument}: one file at a time"));
            }
            continue;
        };
        let flag = flag.strip_prefix('-').unwrap_or(flag);
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (if flag == "h" { "help" } else { flag }, None),
        };
        if let Some((_, why)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
            return Err(format!("-{name} has no meaning here: {why}"));
        }
        if SWITCHES.iter().any(|(known, _)| *known == name) {
            let on = match value {
                None | Some("true" | "1") => true,
                Some("false" | "0") => false,
                Some(other) => return Err(format!("-{name}={other}: true or false")),
            };
            match name {
                "help" if on => return Ok(Asked::Help),
                "version" if on => return Ok(Asked::Version),
                _ => switch(&mut flags, name, on)?,
            }
        } else if VALUES.iter().any(|(known, ..)| *known == name) {
            let next = || left.next().map(String::as_str);
            let value = value
                .or_else(next)
                .ok_or_else(|| format!("-{name}: a value is missing"))?;
            set(&mut flags, name, value)?;
        } else {
            let known = SWITCHES.iter().map(|s| s.0).chain(VALUES.iter().map(|v| v.0));
            let near = known.min_by_key(|k| distance(k, name)).unwrap_or("help");
            return Err(format!("-{name}: no such flag; is -{near} meant? -help lists all"));
        }
    }
    flags.file = file.unwrap_or("-").into();
    if flags.tables {
        switch(&mut flags, "all-views", false)?;
        (flags.info, flags.pressure) = (true, true);
    }
    Ok(Asked::Analysis(Box::new(flags)))
}

fn switch(flags: &mut Flags, name: &str, on: bool) -> Result<(), String> {
    match name {
        "all-views" => {
            (flags.summary, flags.info, flags.pressure) = (on, on, on);
            (flags.bottlenecks, flags.timeline, flags.alignment) = (on, on, on);
            (flags.dispatch, flags.scheduler, flags.retire) = (on, on, on);
        }
        "all-stats" => (flags.dispatch, flags.scheduler, flags.retire) = (on, on, on),
        "bottleneck-analysis" => flags.bottlenecks = on,
        "code-alignment" => flags.alignment = on,
        "dispatch-stats" => flags.dispatch = on,
        "instruction-info" => flags.info = on,
        "instruction-tables" => flags.tables = on,
        "json" => flags.json = on,
        "noalias" if !on => {
            return Err(
                "-noalias=false has no meaning here: addresses are followed, and what is unknown is apart".into(),
            )
        }
        "print-imm-hex" => flags.hex = on,
        "resource-pressure" => flags.pressure = on,
        "retire-stats" => flags.retire = on,
        "scheduler-stats" => flags.scheduler = on,
        "show-encoding" => flags.encoding = on,
        "summary-view" => flags.summary = on,
        "timeline" => flags.timeline = on,
        _ => {}
    }
    Ok(())
}

fn set(flags: &mut Flags, name: &str, value: &str) -> Result<(), String> {
    let bad = |what: &str| format!("-{name}={value}: {what}");
    let number = |least: u32, most: u32| {
        let n = value.parse().ok().filter(|n| (least..=most).contains(n));
        n.ok_or_else(|| bad(&format!("a number from {least} to {most}")))
    };
    match name {
        "code-offset" => flags.offset = Some(number(0, 63)?),
        "iterations" => flags.iterations = Some(number(0, 1_000_000)?).filter(|n| *n > 0).unwrap_or(100),
        "march" | "mtriple" => {
            let isa = match value.split('-').next().unwrap_or("") {
                "x86" if value == "x86-64" => Isa::X86,
                "x86_64" => Isa::X86,
                "aarch64" | "arm64" => Isa::Arm64,
                _ => return Err(bad("x86-64 or aarch64")),
            };
            flags.march = Some((format!("-{name}={value}"), isa));
        }
        "mattr" => flags.mattr = Some(value.into()),
        "mcpu" => flags.cpu = Some(value.into()),
        "o" => flags.output = Some(value.into()),
        "output-asm-variant" => flags.intel_output = number(0, 1)? == 1,
        "skip-unsupported-instructions" => match value {
            "none" => flags.skip_unsupported = false,
            "lack-sched" | "any" => flags.skip_unsupported = true,
            "parse-failure" => return Err(bad("text that the assembler refuses is never left out; lack-sched")),
            _ => return Err(bad("none, lack-sched or any")),
        },
        "timeline-max-cycles" => flags.timeline_cycles = number(0, 100_000)?,
        "timeline-max-iterations" => flags.timeline_iterations = number(1, 10_000)?,
        "x86-asm-syntax" => {
            flags.intel_input = match value {
                "intel" => true,
                "att" => false,
                _ => return Err(bad("att or intel")),
            };
            flags.intel_output = flags.intel_input;
        }
        other => {
            let parameter = match other {
                "dispatch" => "rename.width",
                "micro-op-queue" => "rename.queue",
                _ => "memory.store_queue",
            };
            number(0, 4096)?;
            // 0 leaves the core as it is, as llvm-mca has it.
            if value != "0" {
                flags.overrides.push((parameter.into(), value.into()));
            }
        }
    }
    Ok(())
}

/// Edits that make one word of another.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut before = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = before + usize::from(x != y);
            before = row[j + 1];
            row[j + 1] = change.min(before + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
