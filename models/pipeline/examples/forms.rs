//! Name the forms of AArch64 code read from standard input, one block of hex a line.

use std::io::Read;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    for hex in text.lines() {
        let code = (0..hex.len() / 2)
            .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16))
            .collect::<Result<Vec<u8>, _>>()?;
        match loopwright_pipeline::isa::arm64::decode(&code) {
            Ok(decoded) => println!(
                "{}",
                decoded.iter().map(|d| d.form.as_str()).collect::<Vec<_>>().join("\t")
            ),
            Err(e) => println!("error: {e}"),
        }
    }
    Ok(())
}
