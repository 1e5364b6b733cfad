//! What a table of figures may say, and that all of it counts.

use crate::common::{close, text};
use loopwright_pipeline::block::Notion::Unrolled;
use loopwright_pipeline::core::figures::FigureTable;
use loopwright_pipeline::core::params::Params;

#[test]
fn a_table_says_nothing_that_is_not_read() {
    let params = Params::parse(&text("skylake", "core.toml"), &[]).unwrap();
    let row = |cells: &str| {
        let header = "mnemonic,operands,slots,mite,ms,decoder,ports,latency,flags,indexed,same";
        FigureTable::parse(&format!("{header}\n{cells}\n"), &params)
            .map(|_| ())
            .map_err(|e| e.to_string())
    };
    assert_eq!(row("mov,r64,1,1,0,c2,23,a:5,tp=3 fuse=cz,,1:1:0156|*:1"), Ok(()));
    for (cells, words) in [
        ("mov,r64,1,1,0,,23,a:5 d:2,,,", "latency d:2"),
        ("mov,r64,1,1,0,,23,s:4,,,", "latency s:4"),
        ("mov,r64,1,1,0,,23,a:100001,,,", "latency a:100001"),
        ("mov,r64,1,1,0,,23,a:5,tp=100001,,", "flag tp=100001"),
        ("mov,r64,1,1,0,,23,a:5,fuse=cq,,", "kinds of branch"),
        ("mov,r64,1,1,0,x2,23,a:5,,,", "decoder x2"),
        ("mov,r64,1,1,0,,23,a:5,,,1:1:0156|0>1:1", "variant"),
    ] {
        let error = row(cells).expect_err(cells);
        assert!(error.contains(words) && error.contains("line 2"), "{error}");
    }
}

#[test]
fn latencies_of_an_index_and_of_the_same_register_count() {
    let cycles = |core: &str, hex: &str| crate::common::cycles(core, hex, 0, Unrolled);
    // lea cx, [rax*2]; lea ax, [rcx*2]: two cycles from an index to 16 bits.
    close(cycles("skylake", "668d0c4500000000668d044d00000000"), 4.0);
    // shld eax, eax, 4 is a rotate on Skylake: 1 cycle, else 3.
    close(cycles("skylake", "0fa4c004"), 1.0);
    close(cycles("skylake", "0fa4d804"), 3.0);
    // mov eax, eax is not eliminated.
    close(cycles("skylake", "89c0"), 1.0);
    close(cycles("ivybridge", "89c0"), 1.0);
}
