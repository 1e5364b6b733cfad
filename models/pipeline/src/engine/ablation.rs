//! Limits that a machine is built without, to see what they cost.

/// Limits that units do not have.
#[derive(Clone, Debug, Default)]
pub struct Ablation {
    /// Ports that start any number of uops a cycle.
    pub ports: u32,
    /// The number of each instruction's chain, within which nothing waits; 0 for none.
    pub chains: Vec<u16>,
    /// Code has no blocks for the predecoder and fetch.
    pub predecode: bool,
    /// The uop cache has no regions.
    pub uop_cache: bool,
    /// The loop buffer starts over within a cycle.
    pub loop_buffer: bool,
    /// Predecoder and fetch go on behind a taken branch.
    pub taken_branch: bool,
    /// All branches are predicted.
    pub mispredicts: bool,
}
