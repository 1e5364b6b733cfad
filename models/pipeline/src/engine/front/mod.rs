//! The front end: units that hand uops to rename.

pub mod code;
pub mod cursor;
pub mod decode;
pub mod fetch;
pub mod ideal;
pub mod loop_buffer;
pub mod microcode;
pub mod predecode;
pub mod sink;
pub mod targets;
pub mod unit;
pub mod uop_cache;
