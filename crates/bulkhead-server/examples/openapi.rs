//! Writes the description of the API to stdout: `cargo run -p bulkhead-server --example openapi`.

use std::io::Write as _;

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(bulkhead_server::description().as_bytes())
}
