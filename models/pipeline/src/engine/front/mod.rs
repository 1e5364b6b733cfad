//! The front end: units that hand uops to rename.

pub mod decode;
pub mod fetch;
pub mod loop_buffer;
pub mod predecode;
pub mod uop_cache;
