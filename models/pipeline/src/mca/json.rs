//! The JSON output, with llvm-mca's keys; `CodeAlignmentView` and `LimitsView` are ours.

use crate::block::Notion;
use crate::core::Core;
use crate::isa::Isa;
use crate::mca::flags::Flags;
use crate::mca::simulated::Simulated;
use serde_json::{json, Map, Value};

/// The whole output.
pub fn text(flags: &Flags, id: &str, core: &Core, regions: &[Simulated]) -> String {
    let march = match core.params.isa {
        Isa::X86 => "x86_64",
        Isa::Arm64 => "aarch64",
    };
    let resources: Vec<String> = core.params.ports.names.chars().map(|c| format!("port {c}")).collect();
    let whole = json!({
        "CodeRegions": regions.iter().map(|r| region(flags, core, r)).collect::<Vec<_>>(),
        "SimulationParameters": { "-march": march, "-mcpu": flags.cpu.as_deref().unwrap_or(id), "-mtriple": "" },
        "TargetInfo": { "CPUName": id, "Resources": resources },
    });
    format!("{whole:#}\n")
}

fn region(flags: &Flags, core: &Core, one: &Simulated) -> Value {
    let mut views = Map::new();
    views.insert("Name".into(), json!(one.region.name));
    views.insert("Instructions".into(), json!(one.text));
    views.insert("Notes".into(), json!(one.notes));
    if flags.summary {
        let (iterations, per) = (u64::from(one.iterations), one.text.len() as u64);
        let uops = iterations * one.uops as u64;
        let cycles = one.total_cycles.max(1.0);
        let view = json!({
            "BlockRThroughput": one.bound,
            "Bottleneck": one.prediction.bottleneck,
            "CyclesPerIteration": one.prediction.cycles,
            "DispatchWidth": core.params.rename.width,
            "IPC": (iterations * per) as f64 / cycles,
            "Instructions": iterations * per,
            "Iterations": iterations,
            "Kind": if one.kind == Notion::Loop { "loop" } else { "unrolled" },
            "TotalCycles": cycles.round() as u64,
            "TotaluOps": uops,
            "uOpsPerCycle": uops as f64 / cycles,
        });
        views.insert("SummaryView".into(), view);
    }
    if flags.bottlenecks {
        let limit = |f: &crate::observe::figures::Figure| {
            let ports = f.port_names(&core.params);
            json!({ "Limit": f.limit, "Cycles": f.cycles, "Ports": ports, "Instructions": f.instructions, "Binds": f.binds })
        };
        let limits: Vec<Value> = one.prediction.limits.iter().map(limit).collect();
        views.insert("LimitsView".into(), json!(limits));
    }
    if flags.info {
        let of = |(n, i): (usize, &crate::mca::simulated::Info)| {
            let encoding: String = one.bytes[n].iter().map(|b| format!("{b:02x}")).collect();
            json!({
                "Encoding": encoding,
                "Instruction": n, "Latency": i.latency, "NumMicroOpcodes": i.uops, "RThroughput": i.throughput,
                "hasUnmodeledSideEffects": i.side_effects, "mayLoad": i.loads, "mayStore": i.stores,
            })
        };
        let list: Vec<Value> = one.info.iter().enumerate().map(of).collect();
        views.insert("InstructionInfoView".into(), json!({ "InstructionList": list }));
    }
    if flags.pressure {
        let rows = one.prediction.ports.iter().flatten().enumerate();
        let used = rows.flat_map(|(instruction, row)| {
            let cells = row.iter().enumerate().filter(|(_, usage)| **usage > 0.0);
            cells.map(move |(port, usage)| {
                json!({ "InstructionIndex": instruction, "ResourceIndex": port, "ResourceUsage": usage })
            })
        });
        let list: Vec<Value> = used.collect();
        views.insert("ResourcePressureView".into(), json!({ "ResourcePressureInfo": list }));
    }
    if flags.timeline {
        let shown = one.rows.iter().filter(|r| r.iteration < flags.timeline_iterations);
        let list: Vec<Value> = shown
            .map(|r| {
                json!({
                    "Iteration": r.iteration, "Instruction": r.inst, "Uop": r.uop, "Port": r.port,
                    "CycleDispatched": r.dispatched, "CycleReady": r.ready, "CycleIssued": r.issued,
                    "CycleExecuted": r.executed, "CycleRetired": r.retired,
                })
            })
            .collect();
        views.insert("TimelineView".into(), json!({ "TimelineInfo": list }));
    }
    if flags.alignment {
        let offsets: Vec<Option<f64>> = one.offsets.iter().map(|c| (!c.is_nan()).then_some(*c)).collect();
        let view = json!({ "CodeOffset": one.offset, "CrossesLine": one.crosses_line(), "CyclesByOffset": offsets });
        views.insert("CodeAlignmentView".into(), view);
    }
    Value::Object(views)
}
