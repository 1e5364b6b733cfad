//! The choices of parameters that are words.

use crate::error::Error;

/// A choice that a word of `core.toml` names.
pub trait Word: Copy + Sized + 'static {
    /// All words and what they stand for.
    const WORDS: &'static [(&'static str, Self)];
}

macro_rules! words {
    ($( $(#[$doc:meta])* $name:ident { $( $(#[$about:meta])* $variant:ident = $word:literal ),* $(,)? } )*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $( $(#[$about])* #[doc = concat!("\n\n`", $word, "`")] $variant, )* }
        impl Word for $name {
            const WORDS: &'static [(&'static str, Self)] = &[ $( ($word, $name::$variant) ),* ];
        }
    )* };
}

words! {
    /// What fills the queue in front of rename.
    Mode {
        /// The front end of the core.
        Real = "real",
        /// It is always full.
        Ideal = "ideal",
    }

    /// Where instructions come from outside of caches of decoded uops.
    FetchKind {
        /// Predecoder, instruction queue, one complex and several simple decoders.
        Predecoded = "predecoded",
        /// Aligned fetch blocks and equal decoders.
        Blocks = "blocks",
    }

    /// Which decoders take a pop of rsp or r12.
    PopR12 {
        /// Any.
        Any = "any",
        /// The first of a group.
        First = "first",
        /// The first, and no other instruction is decoded after it.
        Alone = "alone",
    }

    /// Rule by which decoded uops are kept.
    CacheRule {
        /// A region is cached only if its uops fit its lines (Intel).
        Region = "region",
        /// An entry holds uops of one line and may be followed by another (AMD).
        Entry = "entry",
        /// No cache of decoded uops.
        None = "none",
    }

    /// Behind which taken branches a cycle of the uop cache reads on.
    Joins {
        /// None.
        None = "none",
        /// One a cycle, found ahead, but not the branch that was the last one taken, too: a loop's own.
        Others = "others",
        /// The same, and a jump to another region counts as one with the jump or return taken next, unless a return was taken just before.
        Pairs = "pairs",
        /// Those to another region than the branch's.
        Apart = "apart",
        /// All.
        All = "all",
    }

    /// How uops are given to execution ports.
    Assign {
        /// At rename, by the number of waiting uops of each port, two choices a cycle.
        DispatchSlots = "dispatch_slots",
        /// At rename, always the port with the fewest waiting uops.
        LeastLoaded = "least_loaded",
        /// When the uop starts: any free port.
        AtIssue = "at_issue",
    }

    /// Which of ports with as many waiting uops is taken.
    Tie {
        /// The one of the highest number.
        High = "high",
        /// The one of the lowest number.
        Low = "low",
    }

    /// What advances the dispatch slot.
    Counted {
        /// Every slot.
        Slots = "slots",
        /// Computing uops alone.
        Computing = "computing",
        /// Every slot that the uop cache or the loop buffer fills, of others computing uops alone.
        Cached = "cached",
    }

    /// Loads that rename knows to read what a store stores.
    Renames {
        /// None.
        None = "none",
        /// Those addressed by the stack pointer alone.
        Stack = "stack",
        /// Those addressed by a base register alone.
        Base = "base",
        /// Any.
        Any = "any",
    }

    /// Instructions that change memory whose loads rename treats as others.
    Updates {
        /// Any.
        Any = "any",
        /// Those that read nothing else: no register, no flag.
        Constant = "constant",
    }

    /// Instructions that fuse with a branch behind them.
    Pairs {
        /// None.
        None = "none",
        /// Those that the figures name.
        Table = "table",
        /// Compare and test.
        CmpTest = "cmp_test",
        /// All that set flags and access no memory.
        Flags = "flags",
    }

    /// Sides of a copy that have to be at a multiple of the element's size.
    Sides {
        /// The destination.
        Destination = "destination",
        /// Source and destination.
        Either = "either",
    }

    /// Ends of the destination that may have to be aligned.
    Ends {
        /// The first byte.
        Start = "start",
        /// What is behind the last one.
        End = "end",
    }
}

/// The choice of a dispatch slot among several possible ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// By load: 0 is the least loaded one.
    Rank(usize),
    /// The one of the highest number but for the least loaded one.
    Highest,
    /// The one of the lowest number but for the least loaded one.
    Lowest,
    /// By load, as far behind the least loaded one as uops for the same ports came before in the cycle.
    InTurn,
}

impl Joins {
    /// Whether the predictor finds targets ahead of delivery.
    pub fn finds_ahead(self) -> bool {
        matches!(self, Joins::Others | Joins::Pairs)
    }
}

impl Choice {
    /// Choices of the dispatch slots of a cycle from their letters; further slots repeat them.
    ///
    /// # Errors
    /// There are none or more than eight letters, or one is unknown.
    pub fn of_slots(name: &str, letters: &str) -> Result<Vec<Choice>, Error> {
        let one = |c| match c {
            '0'..='4' => Some(Choice::Rank(c as usize - '0' as usize)),
            'h' => Some(Choice::Highest),
            'l' => Some(Choice::Lowest),
            't' => Some(Choice::InTurn),
            _ => None,
        };
        let all: Option<Vec<Choice>> = letters.chars().map(one).collect();
        all.filter(|c| (1..=8).contains(&c.len()))
            .ok_or_else(|| Error::Parameter(format!("{name} = {letters}: one to eight of 0, 1, 2, 3, 4, h, l and t")))
    }
}
