//! Control flow of each instruction of a section, decoded from its start to its end.

use crate::isa::Isa;
use crate::loops::section::Section;
use disarm64::decoder;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};

/// Control flow after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Next,
    /// To the target or the next one.
    Branch,
    /// To the target.
    Jump,
    /// To the next one, by way of a routine.
    Call,
    /// Nowhere that the code shows.
    Indirect,
    /// It does not.
    End,
}

/// Further properties of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hint {
    None,
    /// A string instruction that repeats.
    Repeats,
    /// A landing pad of indirect branches.
    Pad,
}

/// An instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) at: u32,
    pub(crate) len: u8,
    pub(crate) flow: Flow,
    pub(crate) hint: Hint,
    /// Does nothing: it may be padding.
    pub(crate) pads: bool,
    /// The target of a direct branch, in the section.
    pub(crate) target: Option<u32>,
}

impl Step {
    pub(crate) fn end(&self) -> u32 {
        self.at + u32::from(self.len)
    }
}

/// Instructions that follow each other without a gap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// It begins where nothing says that an instruction starts.
    pub(crate) guessed: bool,
    /// The bytes after it start no instruction.
    pub(crate) broken: bool,
}

/// The instructions of a section.
#[derive(Debug, Default)]
pub(crate) struct Text {
    pub(crate) steps: Vec<Step>,
    pub(crate) runs: Vec<Run>,
    pub(crate) lost: u32,
}

/// Bytes to which compilers and linkers align what follows bytes that are no instructions.
pub(crate) const ALIGNED: u32 = 16;

impl Text {
    pub(crate) fn new(section: &Section) -> Text {
        let mut text = Text::default();
        let whole = section.code.len() as u32;
        let mut edges: Vec<u32> = section.starts.iter().chain(section.ends).copied().collect();
        edges.sort_unstable();
        edges.dedup();
        let mut at = 0;
        for &(start, end) in section.data.iter().chain([&(whole, whole)]) {
            text.stretch(section, &edges, at, start.min(whole));
            at = end.max(at);
        }
        text
    }

    /// Read a stretch without data: each piece between edges of routines by itself.
    fn stretch(&mut self, section: &Section, edges: &[u32], from: u32, to: u32) {
        let first = edges.partition_point(|s| *s <= from);
        let mut at = from;
        for &stop in edges[first..].iter().take_while(|s| **s < to).chain([&to]) {
            self.piece(section, at, stop);
            at = stop;
        }
    }

    /// Read from a known start; behind what is no instruction, go on at the next aligned address.
    fn piece(&mut self, section: &Section, from: u32, to: u32) {
        let (mut at, mut guessed) = (from, false);
        while at < to {
            let reached = match section.isa {
                Isa::X86 => self.x86(section.code, at, to),
                Isa::Arm64 => self.arm64(section.code, at, to),
            };
            let rest = &section.code[reached as usize..to as usize];
            let padding = rest.iter().all(|b| matches!(b, 0 | 0xcc));
            self.runs.push(Run {
                start: at,
                end: reached,
                guessed,
                broken: !padding,
            });
            if padding {
                return;
            }
            let unit = if section.isa == Isa::X86 { ALIGNED } else { 4 };
            let next = reached + unit - (reached + section.address) % unit;
            at = next.min(to);
            guessed = true;
            self.lost += at - reached;
        }
    }

    fn x86(&mut self, code: &[u8], from: u32, to: u32) -> u32 {
        let bytes = &code[from as usize..to as usize];
        let mut decoder = Decoder::with_ip(64, bytes, u64::from(from), DecoderOptions::NONE);
        let mut i = Instruction::default();
        let mut reached = from;
        while decoder.can_decode() {
            decoder.decode_out(&mut i);
            if i.is_invalid() {
                break;
            }
            reached = i.next_ip() as u32;
            self.steps.push(x86_step(&i, code.len()));
        }
        reached
    }

    fn arm64(&mut self, code: &[u8], from: u32, to: u32) -> u32 {
        let mut at = from;
        while at + 4 <= to {
            let bytes = &code[at as usize..at as usize + 4];
            let word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            if word >> 16 == 0 || decoder::decode(word).is_none() {
                break;
            }
            self.steps.push(arm64_step(word, at, code.len()));
            at += 4;
        }
        at
    }
}

fn within(target: i64, len: usize) -> Option<u32> {
    u32::try_from(target).ok().filter(|t| (*t as usize) < len)
}

fn x86_step(i: &Instruction, len: usize) -> Step {
    let near = matches!(
        i.op0_kind(),
        OpKind::NearBranch64 | OpKind::NearBranch32 | OpKind::NearBranch16
    );
    let flow = match i.flow_control() {
        FlowControl::ConditionalBranch => Flow::Branch,
        FlowControl::UnconditionalBranch => Flow::Jump,
        FlowControl::Call | FlowControl::IndirectCall => Flow::Call,
        FlowControl::IndirectBranch => Flow::Indirect,
        FlowControl::Return | FlowControl::Exception => Flow::End,
        FlowControl::Interrupt if i.mnemonic() == Mnemonic::Int3 => Flow::End,
        _ => Flow::Next,
    };
    let repeats = i.is_string_instruction() && (i.has_rep_prefix() || i.has_repne_prefix());
    let pad = matches!(i.mnemonic(), Mnemonic::Endbr64);
    Step {
        at: i.ip() as u32,
        len: i.len() as u8,
        flow: if flow == Flow::Jump && !near {
            Flow::Indirect
        } else {
            flow
        },
        hint: match (repeats, pad) {
            (true, _) => Hint::Repeats,
            (_, true) => Hint::Pad,
            _ => Hint::None,
        },
        pads: matches!(i.mnemonic(), Mnemonic::Nop | Mnemonic::Int3),
        target: if near && flow != Flow::Next {
            within(i.near_branch_target() as i64, len)
        } else {
            None
        },
    }
}

/// Read branches by their fixed bits (Arm ARM, C4.1.65).
fn arm64_step(word: u32, at: u32, len: usize) -> Step {
    let field = |low: u32, bits: u32| {
        let words = i64::from((word << (32 - low - bits)) as i32 >> (32 - bits));
        within(i64::from(at) + 4 * words, len)
    };
    let (flow, target) = match word >> 24 {
        top if top & 0x7c == 0x14 && top >> 7 == 1 => (Flow::Call, field(0, 26)),
        top if top & 0x7c == 0x14 => (Flow::Jump, field(0, 26)),
        // Conditions 14 and 15 hold always.
        0x54 if word & 0xe == 0xe => (Flow::Jump, field(5, 19)),
        0x54 => (Flow::Branch, field(5, 19)),
        top if top & 0x7e == 0x34 => (Flow::Branch, field(5, 19)),
        top if top & 0x7e == 0x36 => (Flow::Branch, field(5, 14)),
        0xd4 if word & 0x1f == 1 => (Flow::Call, None), // svc: through the kernel
        0xd4 if word & 0x00e0_001f == 0x0020_0000 => (Flow::End, None), // brk
        0xd6 | 0xd7 => match word >> 21 & 7 {
            1 => (Flow::Call, None),
            2 | 4 => (Flow::End, None),
            _ => (Flow::Indirect, None),
        },
        _ => (Flow::Next, None),
    };
    // bti c, j and jc; paciasp and pacibsp, where calls land too.
    let pad = matches!(
        word,
        0xd503_245f | 0xd503_249f | 0xd503_24df | 0xd503_233f | 0xd503_237f
    );
    Step {
        at,
        len: 4,
        flow,
        hint: if pad { Hint::Pad } else { Hint::None },
        pads: word == 0xd503_201f,
        target,
    }
}
