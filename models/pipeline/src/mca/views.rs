//! The sections of the text output, in llvm-mca's order.

use crate::block::Notion;
use crate::core::Core;
use crate::mca::flags::Flags;
use crate::mca::simulated::Simulated;
use crate::observe::timeline::Row;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The whole output.
pub fn text(flags: &Flags, id: &str, core: &Core, regions: &[Simulated]) -> String {
    let mut out = String::new();
    for (number, region) in regions.iter().enumerate() {
        if regions.len() > 1 || !region.region.name.is_empty() {
            let dash = if region.region.name.is_empty() { "" } else { " - " };
            section(
                &mut out,
                format!("[{number}] Code Region{dash}{}\n", region.region.name),
            );
        }
        of_region(flags, id, core, region, &mut out);
    }
    out
}

/// Add a section, an empty line before it.
fn section(out: &mut String, text: String) {
    if !out.is_empty() {
        out.push('\n');
    }
    out.push_str(&text);
}

fn of_region(flags: &Flags, id: &str, core: &Core, one: &Simulated, out: &mut String) {
    if flags.summary {
        section(out, summary(core, one));
    }
    if flags.bottlenecks {
        section(out, bottlenecks(core, one));
    }
    if flags.info || flags.encoding {
        section(out, info(flags, one));
    }
    if flags.dispatch {
        let head = "Dispatch Logic - number of cycles where we saw N uops dispatched:\n[# dispatched], [# cycles]\n";
        let counted = one.rows.iter().zip(one.begins.iter().cycle());
        let cycles = counted
            .filter(|(_, begins)| **begins)
            .filter_map(|(row, _)| row.dispatched);
        section(out, histogram(head, cycles, one));
    }
    if flags.scheduler {
        let head = "Schedulers - number of cycles where we saw N uops issued:\n[# issued], [# cycles]\n";
        let cycles = one
            .rows
            .iter()
            .filter(|row| row.port.is_some())
            .filter_map(|row| row.issued);
        section(out, histogram(head, cycles, one));
    }
    if flags.retire {
        let head = "Retire Control Unit - number of cycles where we saw N uops retired:\n[# retired], [# cycles]\n";
        let counted = one.rows.iter().zip(one.begins.iter().cycle());
        let cycles = counted
            .filter(|(_, begins)| **begins)
            .filter_map(|(row, _)| row.retired);
        let entries = format!("\nTotal ROB Entries: {:>18}\n", core.params.retire.reorder_buffer);
        section(out, histogram(head, cycles, one) + &entries);
    }
    if flags.pressure {
        section(out, pressure(core, one));
    }
    if flags.timeline {
        section(out, timeline(flags, one));
    }
    if flags.alignment {
        section(out, alignment(id, one));
    }
    for note in &one.notes {
        let _ = writeln!(out, "\nNote: {note}");
    }
}

fn summary(core: &Core, one: &Simulated) -> String {
    let (iterations, per) = (u64::from(one.iterations), one.text.len() as u64);
    let uops = iterations * one.uops as u64;
    let rate = |n: u64| n as f64 / one.total_cycles.max(1.0);
    format!(
        "Iterations:        {iterations}\nInstructions:      {}\nTotal Cycles:      {:.0}\nTotal uOps:        {uops}\n\n\
         Dispatch Width:    {}\nuOps Per Cycle:    {:.2}\nIPC:               {:.2}\nBlock RThroughput: {:.1}\n\n\
         Cycles Per Iteration: {:.2} ({})\n",
        iterations * per,
        one.total_cycles,
        core.params.rename.width,
        rate(uops),
        rate(iterations * per),
        one.bound,
        one.prediction.cycles,
        match one.kind {
            Notion::Loop => "steady state of a loop",
            _ => "steady state of copies that follow each other",
        },
    )
}

fn bottlenecks(core: &Core, one: &Simulated) -> String {
    let mut out = String::from("Throughput Bottlenecks: cycles an iteration if the core had this limit alone\n");
    let mut figures: Vec<_> = one.prediction.limits.iter().collect();
    figures.sort_by(|a, b| b.cycles.unwrap_or(0.0).total_cmp(&a.cycles.unwrap_or(0.0)));
    for figure in figures {
        let cycles = figure.cycles.map_or("-".into(), |c| format!("{c:.2}"));
        let ports = figure.port_names(&core.params);
        let ports = if ports.is_empty() { ports } else { format!(" {ports}") };
        let mark = if figure.binds { "  << binds" } else { "" };
        let _ = writeln!(
            out,
            "  {:<38} [ {cycles:>7} ]{mark}",
            format!("{}{ports}", figure.limit)
        );
    }
    let chain = one
        .prediction
        .limits
        .iter()
        .find(|f| f.limit == "dependencies" && !f.instructions.is_empty());
    if let Some(chain) = chain {
        let _ = writeln!(
            out,
            "\nLongest loop-carried dependency: {:.2} cycles an iteration",
            chain.cycles.unwrap_or(0.0)
        );
        for number in &chain.instructions {
            let _ = writeln!(out, " +----> {number}.    {}", one.text[usize::from(*number)]);
        }
    }
    out
}

fn info(flags: &Flags, one: &Simulated) -> String {
    let mut out = String::from(
        "Instruction Info:\n[1]: #uOps\n[2]: Latency\n[3]: RThroughput\n[4]: MayLoad\n[5]: MayStore\n[6]: HasSideEffects (U)\n",
    );
    if flags.encoding {
        out.push_str("[7]: Encoding Size\n");
    }
    let size = if flags.encoding {
        "[7]    Encodings:                    "
    } else {
        ""
    };
    let _ = writeln!(out, "\n[1]    [2]    [3]    [4]    [5]    [6]    {size}Instructions:");
    for ((text, bytes), info) in one.text.iter().zip(&one.bytes).zip(&one.info) {
        let flag = |on: bool, mark: char| if on { mark } else { ' ' };
        let _ = write!(
            out,
            " {:<6} {:<5} {:<5.2}   {}      {}      {}      ",
            info.uops,
            info.latency,
            info.throughput,
            flag(info.loads, '*'),
            flag(info.stores, '*'),
            flag(info.side_effects, 'U'),
        );
        if flags.encoding {
            let hex: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
            let _ = write!(out, " {:<5} {:<30}", bytes.len(), hex.join(" "));
        }
        let _ = writeln!(out, "{text}");
    }
    out
}

/// Cycles by how often each of them occurs.
fn histogram(head: &str, cycles: impl Iterator<Item = i32>, one: &Simulated) -> String {
    let mut by_cycle: BTreeMap<i32, usize> = BTreeMap::new();
    for cycle in cycles {
        *by_cycle.entry(cycle).or_default() += 1;
    }
    let mut by_number: BTreeMap<usize, usize> = BTreeMap::new();
    for number in by_cycle.values() {
        *by_number.entry(*number).or_default() += 1;
    }
    let last = one.rows.iter().filter_map(|row| row.retired).max().unwrap_or(0);
    let total = (last + 1) as usize;
    by_number.insert(0, total.saturating_sub(by_cycle.len()));
    let mut out = String::from(head);
    for (number, cycles) in by_number {
        let share = 100.0 * cycles as f64 / total as f64;
        let _ = writeln!(out, " {:<16}{cycles}  ({share:.1}%)", format!("{number},"));
    }
    out
}

/// Cells of a table of ports, a dash for none.
fn cells(values: &[f64]) -> String {
    let cell = |v: &f64| {
        if *v < 0.005 {
            " -     ".into()
        } else {
            format!("{v:<7.2}")
        }
    };
    values.iter().map(cell).collect()
}

fn pressure(core: &Core, one: &Simulated) -> String {
    let mut out = String::from("Resources:\n");
    let names: Vec<char> = core.params.ports.names.chars().collect();
    let kinds = [
        (&core.params.ports.load, "load"),
        (&core.params.ports.store_address, "store address"),
        (&core.params.ports.store_data, "store data"),
        (&core.params.ports.alu, "integer"),
    ];
    for (number, name) in names.iter().enumerate() {
        let does: Vec<&str> = kinds
            .iter()
            .filter(|(ports, _)| ports.contains(*name))
            .map(|(_, what)| *what)
            .collect();
        let does = if does.is_empty() {
            String::new()
        } else {
            format!(" ({})", does.join(", "))
        };
        let _ = writeln!(out, "{:<5} - port {name}{does}", format!("[{number}]"));
    }
    let heads: String = (0..names.len()).map(|n| format!("{:<7}", format!("[{n}]"))).collect();
    let by_instruction = one.prediction.ports.clone().unwrap_or_default();
    let mut sums = vec![0.0; names.len()];
    for row in &by_instruction {
        sums.iter_mut().zip(row).for_each(|(sum, cell)| *sum += cell);
    }
    let _ = writeln!(
        out,
        "\n\nResource pressure per iteration:\n{}\n{}",
        heads.trim_end(),
        cells(&sums).trim_end()
    );
    let _ = writeln!(out, "\nResource pressure by instruction:\n{heads}Instructions:");
    for (row, text) in by_instruction.iter().zip(&one.text) {
        let _ = writeln!(out, "{}{text}", cells(row));
    }
    out
}

/// An instruction in an iteration, as one line of the timeline.
struct Line {
    dispatched: i32,
    issued: Option<i32>,
    executed: Option<i32>,
    retired: i32,
    ready: Option<i32>,
}

impl Line {
    fn of(rows: &[&Row]) -> Option<Line> {
        let least = |of: fn(&Row) -> Option<i32>| rows.iter().filter_map(|r| of(r)).min();
        let most = |of: fn(&Row) -> Option<i32>| rows.iter().filter_map(|r| of(r)).max();
        Some(Line {
            dispatched: least(|r| r.dispatched)?,
            issued: least(|r| r.issued),
            executed: most(|r| r.executed),
            retired: most(|r| r.retired)?,
            ready: least(|r| r.ready),
        })
    }

    fn mark(&self, cycle: i32) -> char {
        let (issued, executed) = (
            self.issued.unwrap_or(i32::MAX),
            self.executed.unwrap_or(self.dispatched),
        );
        match cycle {
            c if c < self.dispatched || c > self.retired => {
                if cycle % 5 == 0 {
                    '.'
                } else {
                    ' '
                }
            }
            c if c == self.dispatched => 'D',
            c if c == self.retired => 'R',
            c if self.issued.is_some() && c < issued => '=',
            c if self.issued.is_some() && c < executed => 'e',
            c if self.issued.is_some() && c == executed => 'E',
            _ => '-',
        }
    }
}

fn timeline(flags: &Flags, one: &Simulated) -> String {
    let iterations = flags.timeline_iterations.min(one.recorded).min(one.iterations.max(1));
    let mut lines: Vec<(u32, usize, Line)> = Vec::new();
    for iteration in 0..iterations {
        for number in 0..one.text.len() {
            let own = one
                .rows
                .iter()
                .filter(|r| r.iteration == iteration && r.inst as usize == number);
            // An instruction that is fused with the one before it shows what that one does.
            let own: Vec<&Row> = own.filter(|r| r.dispatched.is_some()).collect();
            if let Some(line) = Line::of(&own) {
                lines.push((iteration, number, line));
            }
        }
    }
    let first = lines.iter().map(|(.., l)| l.dispatched).min().unwrap_or(0);
    let most = if flags.timeline_cycles == 0 {
        i32::MAX
    } else {
        flags.timeline_cycles as i32
    };
    for (.., line) in &mut lines {
        let (issued, executed) = (line.issued.as_mut(), line.executed.as_mut());
        let cycles = [
            Some(&mut line.dispatched),
            issued,
            executed,
            Some(&mut line.retired),
            line.ready.as_mut(),
        ];
        cycles.into_iter().flatten().for_each(|cycle| *cycle -= first);
    }
    let end = lines.iter().map(|(.., l)| l.retired + 1).max().unwrap_or(0).min(most);
    let mut out = String::from("Timeline view:\n");
    let tens = |odd: i32| -> String {
        let digit = |c: i32| {
            if c / 10 % 2 == odd {
                char::from(b'0' + (c % 10) as u8)
            } else {
                ' '
            }
        };
        (0..end).map(digit).collect()
    };
    let _ = writeln!(out, "{:10}{}\nIndex     {}\n", "", tens(1), tens(0));
    for (iteration, number, line) in lines.iter().filter(|(.., l)| l.dispatched < end) {
        let marks: String = (0..end).map(|c| line.mark(c)).collect();
        let _ = writeln!(
            out,
            "{:<9} {marks}   {}",
            format!("[{iteration},{number}]"),
            one.text[*number]
        );
    }
    out.push_str(&waits(&lines, one));
    out
}

fn waits(lines: &[(u32, usize, Line)], one: &Simulated) -> String {
    let mut out = String::from(
        "\n\nAverage Wait times (based on the timeline view):\n[0]: Executions\n\
         [1]: Average time spent waiting in a scheduler's queue\n\
         [2]: Average time spent waiting in a scheduler's queue while ready\n\
         [3]: Average time elapsed from WB until retire stage\n\n      [0]    [1]    [2]    [3]\n",
    );
    let mut row = |head: &str, of: &[&Line], text: &str| {
        let n = of.len();
        let mean = |f: &dyn Fn(&Line) -> Option<i32>| {
            let sum: i32 = of.iter().filter_map(|l| f(l)).sum();
            format!("{:.1}", f64::from(sum) / n.max(1) as f64)
        };
        let waits = mean(&|l| Some(l.issued? - l.dispatched));
        let ready = mean(&|l| Some(l.issued? - l.ready?.max(l.dispatched)));
        let done = mean(&|l| Some(l.retired - l.executed?));
        let _ = writeln!(out, "{head:<5}{n:>3}    {waits:<6} {ready:<6} {done:<8} {text}");
    };
    for (number, text) in one.text.iter().enumerate() {
        let own: Vec<&Line> = lines.iter().filter(|(_, n, _)| *n == number).map(|(.., l)| l).collect();
        if !own.is_empty() {
            row(&format!("{number}."), &own, text);
        }
    }
    let all: Vec<&Line> = lines.iter().map(|(.., l)| l).collect();
    row("", &all, "<total>");
    out
}

fn alignment(id: &str, one: &Simulated) -> String {
    let mut out = format!(
        "Code Alignment ({id}):\nCode offset: {} of 64 bytes{}\n",
        one.offset,
        if one.crosses_line() {
            "; the region crosses a line boundary"
        } else {
            ""
        },
    );
    let _ = writeln!(out, "Cycles per iteration by code offset: {}", folded(&one.offsets));
    let known = one.offsets.iter().copied().filter(|c| !c.is_nan());
    let (best, worst) = known.fold((f64::INFINITY, 0.0), |(b, w): (f64, f64), c| (b.min(c), w.max(c)));
    if worst > best * 1.005 && best > 0.0 {
        let here = one.prediction.cycles / best;
        let _ = writeln!(
            out,
            "Here {here:.2} times the best offset; the worst is {:.2} times the best.",
            worst / best
        );
    }
    out
}

/// Figures by offset, equal ones of a row as a range: `1.00 at 0-36, 2.00 at 37-63`.
pub fn folded(offsets: &[f64]) -> String {
    let mut runs: Vec<(String, usize, usize)> = Vec::new();
    for (offset, cycles) in offsets.iter().enumerate().filter(|(_, c)| !c.is_nan()) {
        let cycles = format!("{cycles:.2}");
        match runs.last_mut() {
            Some((last, _, end)) if *last == cycles => *end = offset,
            _ => runs.push((cycles, offset, offset)),
        }
    }
    if let [(cycles, ..)] = runs.as_slice() {
        return format!("{cycles} at every offset");
    }
    let range = |(cycles, start, end): &(String, usize, usize)| {
        let places = if start == end {
            start.to_string()
        } else {
            format!("{start}-{end}")
        };
        format!("{cycles} at {places}")
    };
    runs.iter().map(range).collect::<Vec<_>>().join(", ")
}
