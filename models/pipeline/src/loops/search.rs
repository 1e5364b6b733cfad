//! From a section to its loops.

use crate::loops::blocks::Graph;
use crate::loops::bodies::{heads, Bodies};
use crate::loops::dominators::dominators;
use crate::loops::found::{Loop, Loops, Refusal};
use crate::loops::path::Walk;
use crate::loops::reach::Reach;
use crate::loops::returns::Returns;
use crate::loops::section::Section;
use crate::loops::steps::{Flow, Hint, Text};

/// Find the loops of a section.
pub fn find(section: &Section) -> Loops {
    let text = Text::new(section);
    let entries = entries(&text, section);
    let edges = entries.iter().chain(section.starts).chain(section.ends);
    let graph = Graph::new(&text, &Returns::new(&text, edges.copied().collect()));
    let reach = Reach::new(&graph, &graph.all_at(&entries), &graph.all_at(section.starts));
    let idom = dominators(&graph, &reach);
    let heads = heads(&graph, &reach, &idom);
    let doubtful = reach.doubtful(&graph, &text, section);
    let mut all = Loops {
        lost: text.lost,
        ..Loops::default()
    };
    let bodies = Bodies::new(&graph, &reach, &heads);
    for (head, back) in &heads {
        let Some(body) = bodies.innermost(*head, back) else {
            all.outer += 1;
            continue;
        };
        all.found.push(if doubtful[*head as usize] {
            refused(&graph, *head, Refusal::Doubtful)
        } else {
            Walk::new(&text, &graph, &body).from(*head)
        });
    }
    all.found.sort_by_key(|l| l.path[0]);
    all
}

fn refused(graph: &Graph, head: u32, why: Refusal) -> Loop {
    let block = &graph.blocks[head as usize];
    Loop {
        path: vec![(block.start, block.end)],
        exits: Vec::new(),
        refused: Some(why),
    }
}

/// Offsets where control may enter: entries of the section, targets of calls, landing pads.
fn entries(text: &Text, section: &Section) -> Vec<u32> {
    let given = section.entries.iter().copied();
    let pads = text.steps.iter().filter(|s| s.hint == Hint::Pad).map(|s| s.at);
    let called = text.steps.iter().filter(|s| s.flow == Flow::Call);
    let mut all: Vec<u32> = given.chain(pads).chain(called.filter_map(|s| s.target)).collect();
    all.sort_unstable();
    all.dedup();
    all
}
